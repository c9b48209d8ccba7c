// The segment table: which runs of tokens make up which row.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zephon {

// `segments` runs of tokens in order; those numbered row_splits[b] up to, not
// including, row_splits[b + 1] stand one after another in row b.
struct SegmentTable {
  const std::int64_t* length;      // [segments]
  const std::int64_t* row_splits;  // [rows + 1]
  std::int64_t segments;
  std::int64_t rows;
};

enum class RowFault : std::uint8_t {
  none,
  splits_start,  // row_splits[0] is not 0; index 0
  splits_order,  // row_splits[index] > row_splits[index + 1]
  splits_end,    // row_splits[rows] is not `segments`; index `rows`
  length,        // length[index] < 1
  row_length,    // the segments of row `index` hold more than `row_length` tokens
};

struct RowCheck {
  RowFault fault = RowFault::none;
  std::int64_t index = 0;
};

// The first thing wrong with `table` as rows of at most `row_length` >= 0
// tokens. Reads each entry once; no sum is formed that could overflow. A table
// without a fault is what the kernels beside this header presuppose.
[[nodiscard]] RowCheck check_rows(const SegmentTable& table, std::int64_t row_length) noexcept;

}  // namespace zephon
