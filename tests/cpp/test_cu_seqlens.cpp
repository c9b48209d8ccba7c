#include <limits>
#include <vector>

#include "check.hpp"
#include "zephon/cu_seqlens.hpp"

namespace {

using Lengths = std::vector<std::int64_t>;
using Steps = std::vector<std::int32_t>;

// cu_seqlens of exactly the room that is needed, followed by max_seqlen.
Steps steps(const Lengths& length, const Lengths& splits, std::int64_t width, bool padding) {
  const auto rows = static_cast<std::int64_t>(splits.size()) - 1;
  const zephon::SegmentTable table{length.data(), splits.data(),
                                   static_cast<std::int64_t>(length.size()), rows};
  const std::int64_t slots = zephon::count_boundaries(table, width, padding);
  Steps cu(static_cast<std::size_t>(rows * slots), 12345);
  Steps longest(static_cast<std::size_t>(rows), 12345);
  zephon::row_cu_seqlens(table, width, padding, false, -1, slots, cu.data(), longest.data());
  cu.insert(cu.end(), longest.begin(), longest.end());
  return cu;
}

}  // namespace

CASE("each segment ends at a boundary, unused slots are filled") {
  CHECK_EQ(steps({2, 3, 1}, {0, 2, 3}, 5, false), (Steps{0, 2, 5, 0, 1, -1, 3, 1}));
}

CASE("padding is a step of its own where it is wanted and there is any") {
  CHECK_EQ(steps({2, 3, 1}, {0, 2, 3}, 5, true), (Steps{0, 2, 5, 0, 1, 5, 3, 4}));
  CHECK_EQ(steps({}, {0, 0}, 4, true), (Steps{0, 4, 4}));
  CHECK_EQ(steps({}, {0, 0}, 4, false), (Steps{0, 0}));
}

CASE("what occurs only as a label adds no boundary") {
  CHECK_EQ(steps({3, 2, 1}, {0, 3}, 5, true), (Steps{0, 3, 5, 3}));
  CHECK_EQ(steps({3, 3}, {0, 2}, 5, true), (Steps{0, 3, 5, 3}));
}

CASE("a row without columns has only its 0") {
  CHECK_EQ(steps({1}, {0, 1}, 0, true), (Steps{0, 0}));
}

CASE("no row needs no slot") { CHECK_EQ(steps({}, {0}, 5, true), Steps{}); }

CASE("documents are counted, and their lengths and slots written") {
  const Lengths length{2, 2, 3, 3}, splits{0, 2, 2, 4};
  const zephon::SegmentTable table{length.data(), splits.data(), 4, 3};
  for (const bool joined : {false, true}) {
    const auto count = zephon::count_documents(table, 5, joined);
    CHECK_EQ(count.most, joined ? 1 : 2);
    CHECK_EQ(count.longest, joined ? 5 : 3);
    CHECK_EQ(count.empty_row, 1);
    const auto cells = static_cast<std::size_t>(3 * count.most);
    Lengths lens(cells, 12345), padded(cells, 12345);
    zephon::row_seq_lens(table, 5, joined, -1, count.most, lens.data(), padded.data());
    CHECK_EQ(lens, joined ? (Lengths{4, -1, 5}) : (Lengths{2, 2, -1, -1, 3, 2}));
    CHECK_EQ(padded, joined ? (Lengths{5, -1, 5}) : (Lengths{2, 3, -1, -1, 3, 2}));
  }
}

CASE("the widest row fits") {
  constexpr std::int32_t widest = std::numeric_limits<std::int32_t>::max();
  CHECK_EQ(steps({widest, 1}, {0, 2}, widest, true), (Steps{0, widest, widest}));
  CHECK_EQ(steps({1}, {0, 1}, widest, true), (Steps{0, 1, widest, widest - 1}));
}

CHECK_MAIN
