#include <limits>
#include <vector>

#include "check.hpp"
#include "zephon/segments.hpp"

namespace {

using Values = std::vector<std::int64_t>;
using zephon::RowFault;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

// {fault, index} of a table.
Values check_table(const Values& length, const Values& splits, std::int64_t row_length) {
  const zephon::SegmentTable table{length.data(), splits.data(),
                                   static_cast<std::int64_t>(length.size()),
                                   static_cast<std::int64_t>(splits.size()) - 1};
  const zephon::RowCheck found = zephon::check_rows(table, row_length);
  return {static_cast<std::int64_t>(found.fault), found.index};
}

Values fault(RowFault kind, std::int64_t index) { return {static_cast<std::int64_t>(kind), index}; }

}  // namespace

CASE("a table of full, short and empty rows has no fault") {
  CHECK_EQ(check_table({3, 2, 1}, {0, 2, 2, 3}, 5), fault(RowFault::none, 0));
  CHECK_EQ(check_table({}, {0}, 5), fault(RowFault::none, 0));
}

CASE("splits that do not cover the segments are found") {
  CHECK_EQ(check_table({1}, {1, 1}, 5), fault(RowFault::splits_start, 0));
  CHECK_EQ(check_table({1, 1}, {0, 2, 1, 2}, 5), fault(RowFault::splits_order, 1));
  CHECK_EQ(check_table({1, 1}, {0, kHuge, 2}, 5), fault(RowFault::splits_order, 1));
  CHECK_EQ(check_table({1, 1}, {0, -1, 2}, 5), fault(RowFault::splits_order, 0));
  CHECK_EQ(check_table({1, 1}, {0, 1}, 5), fault(RowFault::splits_end, 1));
  CHECK_EQ(check_table({1, 1}, {0, kHuge}, 5), fault(RowFault::splits_end, 1));
}

CASE("lengths below one are found") {
  CHECK_EQ(check_table({1, 0}, {0, 2}, 5), fault(RowFault::length, 1));
  CHECK_EQ(check_table({-kHuge, 1}, {0, 2}, 5), fault(RowFault::length, 0));
}

CASE("a row that is too long is found, also where its sum would overflow") {
  CHECK_EQ(check_table({5, 3, 3}, {0, 1, 3}, 5), fault(RowFault::row_length, 1));
  CHECK_EQ(check_table({5, kHuge}, {0, 2}, 5), fault(RowFault::row_length, 0));
  CHECK_EQ(check_table({kHuge, kHuge}, {0, 2}, kHuge), fault(RowFault::row_length, 0));
}

CHECK_MAIN
