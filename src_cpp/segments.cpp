#include "zephon/segments.hpp"

namespace zephon {

RowCheck check_rows(const SegmentTable& table, std::int64_t row_length) noexcept {
  if (table.row_splits[0] != 0) return {RowFault::splits_start, 0};
  // The order comes first: only ascending splits that end at `segments` can be
  // used to index the lengths.
  for (std::int64_t row = 0; row < table.rows; ++row) {
    if (table.row_splits[row] > table.row_splits[row + 1]) return {RowFault::splits_order, row};
  }
  if (table.row_splits[table.rows] != table.segments) return {RowFault::splits_end, table.rows};

  for (std::int64_t row = 0; row < table.rows; ++row) {
    std::int64_t left = row_length;
    for (std::int64_t s = table.row_splits[row]; s < table.row_splits[row + 1]; ++s) {
      if (table.length[s] < 1) return {RowFault::length, s};
      if (table.length[s] > left) return {RowFault::row_length, row};
      left -= table.length[s];
    }
  }
  return {};
}

}  // namespace zephon
