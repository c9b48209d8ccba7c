// Row-local lengths of documents, as variable-length attention takes them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "zephon/segments.hpp"

namespace zephon {

// All functions take a table for which check_rows(table, width + 1) finds no
// fault, 0 <= width <= INT32_MAX. `width` is the number of input columns: what a
// row holds beyond it occurs only as a label and adds no boundary. With `joined`
// all segments of a row count as one.

// The greatest number of boundaries of a row, its leading 0 included; 0 without rows.
[[nodiscard]] std::int64_t count_boundaries(const SegmentTable& table, std::int64_t width,
                                            bool include_padding) noexcept;

// Per row: 0, then where each segment ends, clipped to `width`; then `width`
// itself if `include_padding` and the row does not reach it. Strictly ascending.
// cu_seqlens [rows, slots], slots >= count_boundaries(...), unused slots = fill.
// max_seqlen [rows] or null: the longest of a row's steps, 0 if it has none.
// One pass over table and outputs; no allocation.
void row_cu_seqlens(const SegmentTable& table, std::int64_t width, bool include_padding,
                    bool joined, std::int32_t fill, std::int64_t slots, std::int32_t* cu_seqlens,
                    std::int32_t* max_seqlen) noexcept;

// Per row the length of each segment in input columns, and the room that it takes: the
// same, but that the last one takes the padding of its row. Both [rows, slots] or null,
// slots >= DocumentCount::most, unused slots = unused. No allocation.
void row_seq_lens(const SegmentTable& table, std::int64_t width, bool joined, std::int64_t unused,
                  std::int64_t slots, std::int64_t* seq_lens, std::int64_t* padded) noexcept;

struct DocumentCount {
  std::int64_t most = 0;        // segments of the row that has most
  std::int64_t longest = 0;     // input columns of the longest segment
  std::int64_t empty_row = -1;  // the first row without any; -1: there is none
};

[[nodiscard]] DocumentCount count_documents(const SegmentTable& table, std::int64_t width,
                                            bool joined) noexcept;

}  // namespace zephon
