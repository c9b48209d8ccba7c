#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "zephon/integer_set.hpp"
#include "zephon/packing.hpp"

namespace zephon {
namespace {

using Index = std::int32_t;  // of a document or a row of a window; tokens of a row
constexpr Index kNone = -1;

constexpr std::size_t at(Index index) noexcept { return static_cast<std::size_t>(index); }

struct Item {
  Index length;
  Index document;
};

// Documents by falling length, equal ones as they came: a radix sort by bytes of
// how much shorter each is than the longest. `length` is not empty.
std::vector<Item> longest_first(std::span<const std::int64_t> length) {
  std::vector<Item> items(length.size());
  Index longest = 0;
  Index shortest = std::numeric_limits<Index>::max();
  for (std::size_t i = 0; i < length.size(); ++i) {
    items[i] = {static_cast<Index>(length[i]), static_cast<Index>(i)};
    longest = std::max(longest, items[i].length);
    shortest = std::min(shortest, items[i].length);
  }
  std::vector<Item> sorted(length.size());
  for (int shift = 0; (longest - shortest) >> shift != 0; shift += 8) {
    const auto digit = [&](const Item& item) { return at((longest - item.length) >> shift & 255); };
    std::array<Index, 256> place{};
    for (const Item& item : items) ++place[digit(item)];
    Index before = 0;
    for (Index& count : place) before += std::exchange(count, before);
    for (const Item& item : items) sorted[at(place[digit(item)]++)] = item;
    items.swap(sorted);
  }
  return items;
}

// Both kinds of open rows offer the same two calls: `take` a row in which a
// document of `length` fits, kNone if there is none, and `put` it back, or put a
// new one, with the room that it has then.

// Finds the earliest row: a tree over the rows whose nodes hold the greatest
// room below them.
class FirstFit {
 public:
  FirstFit(std::size_t rows, std::int64_t /*row_length*/)
      : leaves_(std::bit_ceil(rows)), room_(2 * leaves_) {}

  [[nodiscard]] Index take(Index length) const noexcept {
    if (room_[1] < length) return kNone;
    std::size_t node = 1;
    while (node < leaves_) {
      node *= 2;
      if (room_[node] < length) ++node;
    }
    return static_cast<Index>(node - leaves_);
  }

  void put(Index row, Index room) noexcept {
    std::size_t node = leaves_ + at(row);
    room_[node] = room;
    while (node > 1) {
      const Index greatest = std::max(room_[node], room_[node ^ 1]);
      node /= 2;
      if (room_[node] == greatest) return;
      room_[node] = greatest;
    }
  }

 private:
  std::size_t leaves_;
  std::vector<Index> room_;  // the children of node k are 2k and 2k + 1, the root is 1
};

// Finds the fullest row: a heap of the rows filled equally far for each number of
// tokens. A row often reaches that number before an earlier one does, so the
// heap is needed to find the earliest; it is a skew heap, which has no more
// to keep than two children per row.
class BestFit {
 public:
  BestFit(std::size_t rows, std::int64_t row_length)
      : row_length_(static_cast<Index>(row_length)),
        filled_(at(row_length_)),
        root_(std::make_unique_for_overwrite<Index[]>(at(row_length_))),
        left_(rows, kNone),
        right_(rows, kNone) {}

  [[nodiscard]] Index take(Index length) noexcept {
    const std::size_t tokens = filled_.last_up_to(at(row_length_ - length));
    if (tokens == IntegerSet::none) return kNone;
    const Index row = root_[tokens];
    const Index rest = merge(left_[at(row)], right_[at(row)]);
    if (rest == kNone) {
      filled_.erase(tokens);
    } else {
      root_[tokens] = rest;
    }
    return row;
  }

  void put(Index row, Index room) noexcept {
    if (room == 0) return;
    const std::size_t tokens = at(row_length_ - room);
    left_[at(row)] = right_[at(row)] = kNone;
    if (filled_.last_up_to(tokens) == tokens) {
      root_[tokens] = merge(root_[tokens], row);
    } else {
      filled_.insert(tokens);
      root_[tokens] = row;
    }
  }

 private:
  Index merge(Index a, Index b) noexcept {
    Index root = kNone;
    Index* hook = &root;
    while (a != kNone && b != kNone) {
      if (b < a) std::swap(a, b);
      *hook = a;
      hook = &left_[at(a)];
      a = std::exchange(right_[at(a)], left_[at(a)]);
    }
    *hook = a != kNone ? a : b;
    return root;
  }

  Index row_length_;
  IntegerSet filled_;              // numbers of tokens that some open row has
  std::unique_ptr<Index[]> root_;  // [row_length]; valid where filled_ says so
  std::vector<Index> left_, right_;
};

template <typename OpenRows>
std::int64_t place_decreasing(std::span<const std::int64_t> length, RowLimits limits,
                              std::span<std::int64_t> document, std::span<std::int64_t> splits) {
  std::vector<Item> items = longest_first(length);

  // Of two rows that the limit did not close, the first document of the later
  // one did not fit into the earlier, so together they hold more than a row;
  // at most one row is then half full or less.
  std::int64_t tokens = 0;
  for (const Item& item : items) tokens += item.length;
  std::int64_t bound = tokens / limits.row_length * 2 + 2;
  const auto count = static_cast<std::int64_t>(items.size());
  if (limits.max_segments != 0) bound += count / limits.max_segments;
  const auto most_rows = static_cast<std::size_t>(std::min(bound, count));

  struct Row {
    Index room;
    Index segments;
  };
  std::vector<Row> rows(most_rows);
  OpenRows open(most_rows, limits.row_length);
  const std::int64_t most_segments = limits.segments();
  Index opened = 0;
  for (Item& item : items) {
    Index number = open.take(item.length);
    if (number == kNone) {
      number = opened++;
      rows[at(number)] = {static_cast<Index>(limits.row_length), 0};
    }
    Row& row = rows[at(number)];
    row.room -= item.length;
    open.put(number, ++row.segments < most_segments ? row.room : 0);
    item.length = number;  // from here on the row that it is in
  }

  splits[0] = 0;
  for (Index i = 0; i < opened; ++i) splits[at(i) + 1] = splits[at(i)] + rows[at(i)].segments;
  for (std::size_t i = items.size(); i-- > 0;) {  // backwards, so `segments` serves as the place
    const Index row = items[i].length;
    document[static_cast<std::size_t>(splits[at(row)] + --rows[at(row)].segments)] =
        items[i].document;
  }
  return opened;
}

}  // namespace

std::int64_t pack_decreasing(std::span<const std::int64_t> length, RowLimits limits, Fit fit,
                             std::span<std::int64_t> document, std::span<std::int64_t> splits) {
  if (length.empty()) {
    splits[0] = 0;
    return 0;
  }
  return fit == Fit::best ? place_decreasing<BestFit>(length, limits, document, splits)
                          : place_decreasing<FirstFit>(length, limits, document, splits);
}

}  // namespace zephon
