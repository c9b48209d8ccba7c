#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "check.hpp"
#include "zephon/integer_set.hpp"
#include "zephon/packing.hpp"

namespace {

using Values = std::vector<std::int64_t>;
using zephon::Fit;
using zephon::IntegerSet;
using zephon::RowLimits;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

Values random_lengths(check::Random& random, std::int64_t count, std::int64_t longest) {
  Values lengths;
  for (std::int64_t i = 0; i < count; ++i) lengths.push_back(1 + random.below(longest));
  return lengths;
}

std::int64_t sum(const Values& values) {
  std::int64_t total = 0;
  for (const std::int64_t value : values) total += value;
  return total;
}

// Documents of all rows, a -1 behind each row.
Values decreasing(const Values& lengths, RowLimits limits, Fit fit) {
  Values document(lengths.size());
  Values splits(lengths.size() + 1);
  const std::int64_t rows = zephon::pack_decreasing(lengths, limits, fit, document, splits);
  Values out;
  for (std::size_t b = 0; b < static_cast<std::size_t>(rows); ++b) {
    out.insert(out.end(), document.begin() + splits[b], document.begin() + splits[b + 1]);
    out.push_back(-1);
  }
  return out;
}

struct Table {
  explicit Table(std::int64_t segments, std::int64_t rows)
      : document(static_cast<std::size_t>(segments)),
        offset(document.size()),
        length(document.size()),
        splits(static_cast<std::size_t>(rows) + 1) {}

  [[nodiscard]] zephon::SegmentOutput out() { return {document, offset, length, splits}; }

  Values document, offset, length, splits;
};

// How many things are wrong with the rows of a cut window.
std::int64_t faults(const Values& lengths, RowLimits limits) {
  const auto count = static_cast<std::int64_t>(lengths.size());
  const zephon::RowCount room = zephon::best_fit_wrap_room(sum(lengths), count, limits);
  Table table(room.segments, room.rows);
  const zephon::RowCount made = zephon::pack_best_fit_wrap(lengths, limits, table.out());
  std::int64_t wrong = 0;
  Values reached(lengths.size());
  std::size_t i = 0;
  for (std::int64_t b = 0; b < made.rows; ++b) {
    const std::int64_t end = table.splits[static_cast<std::size_t>(b) + 1];
    const std::int64_t segments = end - static_cast<std::int64_t>(i);
    std::int64_t tokens = 0;
    for (; i < static_cast<std::size_t>(end); ++i) {
      std::int64_t& next = reached[static_cast<std::size_t>(table.document[i])];
      wrong += table.offset[i] != next || table.length[i] < 1 ? 1 : 0;
      next += table.length[i];
      tokens += table.length[i];
    }
    const bool closed = limits.max_segments != 0 && segments == limits.max_segments;
    const bool last = b + 1 == made.rows;
    wrong += tokens > limits.row_length || segments > limits.segments() ? 1 : 0;
    wrong += tokens < limits.row_length && !closed && !last ? 1 : 0;
  }
  wrong += i != static_cast<std::size_t>(made.segments) ? 1 : 0;
  wrong += reached != lengths ? 1 : 0;
  return wrong;
}

}  // namespace

CASE("a set of integers agrees with a sorted one at every depth") {
  check::Random random(1);
  for (const std::size_t size : {1u, 63u, 64u, 65u, 4096u, 4097u, 300000u, 1u << 24}) {
    IntegerSet set(size);
    std::set<std::size_t> sorted;
    bool same = set.last_up_to(size - 1) == IntegerSet::none;
    for (int step = 0; step < 3000; ++step) {
      const auto below = [&] {
        return static_cast<std::size_t>(random.below(static_cast<std::int64_t>(size)));
      };
      const std::size_t member = below();
      if (random.below(3) != 0) {
        set.insert(member);
        sorted.insert(member);
      } else {
        const std::size_t gone = sorted.empty() || member % 2 == 0 ? member : *sorted.begin();
        set.erase(gone);
        sorted.erase(gone);
      }
      const std::size_t bound = below();
      const auto after = sorted.upper_bound(bound);
      const std::size_t expected = after == sorted.begin() ? IntegerSet::none : *std::prev(after);
      same = same && set.last_up_to(bound) == expected;
    }
    CHECK_EQ(same, true);
  }
}

CASE("lengths are summed up to the first that is wrong") {
  const auto found = [](const Values& lengths, std::int64_t low, std::int64_t high) {
    const zephon::LengthSum sum = zephon::sum_lengths(lengths, low, high);
    return Values{sum.total, static_cast<std::int64_t>(sum.end), sum.overflow ? 1 : 0};
  };
  CHECK_EQ(found({}, 1, 5), (Values{0, 0, 0}));
  CHECK_EQ(found({1, 5, 2}, 1, 5), (Values{8, 3, 0}));
  CHECK_EQ(found({1, 6, 0}, 1, 5), (Values{1, 1, 0}));
  CHECK_EQ(found({1, 0, 6}, 1, 5), (Values{1, 1, 0}));
  CHECK_EQ(found({3, std::numeric_limits<std::int64_t>::min()}, 0, kHuge), (Values{3, 1, 0}));
  CHECK_EQ(found({zephon::kMaxTokens, 0}, 0, kHuge), (Values{zephon::kMaxTokens, 2, 0}));
  CHECK_EQ(found({zephon::kMaxTokens, 1}, 0, kHuge), (Values{zephon::kMaxTokens, 1, 1}));
  CHECK_EQ(found({1, kHuge}, 0, kHuge), (Values{1, 1, 1}));
}

CASE("whole documents are placed as by hand") {
  CHECK_EQ(decreasing({}, {20, 0}, Fit::first), Values{});
  CHECK_EQ(decreasing({1, 1}, {1, 0}, Fit::best), (Values{0, -1, 1, -1}));
  CHECK_EQ(decreasing({14, 10, 7, 3, 3}, {20, 0}, Fit::first), (Values{0, 3, 4, -1, 1, 2, -1}));
  CHECK_EQ(decreasing({14, 10, 7, 3, 3}, {20, 0}, Fit::best), (Values{0, 4, -1, 1, 2, 3, -1}));
  CHECK_EQ(decreasing({14, 12, 7, 5, 1}, {20, 0}, Fit::best), (Values{0, 3, 4, -1, 1, 2, -1}));
  CHECK_EQ(decreasing({2, 3, 2, 3}, {20, 3}, Fit::best), (Values{1, 3, 0, -1, 2, -1}));
}

CASE("every document of a large window is placed once, in rows that are not too full") {
  check::Random random(2);
  const std::int64_t count = 20000;
  for (const std::int64_t row_length : {1l, 200l, 70000l, 1l << 24}) {
    for (const std::int64_t limit : {0l, 1l, 7l}) {
      for (const Fit fit : {Fit::first, Fit::best}) {
        const Values lengths = random_lengths(random, count, row_length);
        Values document(lengths.size());
        Values splits(lengths.size() + 1);
        const std::int64_t rows =
            zephon::pack_decreasing(lengths, {row_length, limit}, fit, document, splits);
        bool fits = splits[static_cast<std::size_t>(rows)] == count;
        for (std::size_t b = 0; b < static_cast<std::size_t>(rows); ++b) {
          std::int64_t tokens = 0;
          for (auto i = splits[b]; i < splits[b + 1]; ++i) {
            tokens += lengths[static_cast<std::size_t>(document[static_cast<std::size_t>(i)])];
          }
          const std::int64_t segments = splits[b + 1] - splits[b];
          fits = fits && tokens <= row_length && segments > 0 && (limit == 0 || segments <= limit);
        }
        CHECK_EQ(fits, true);
        std::int64_t bound = 2 * (sum(lengths) / row_length) + 2;
        if (limit != 0) bound += count / limit;
        CHECK_EQ(rows <= bound, true);
        std::sort(document.begin(), document.end());
        std::int64_t next = 0;
        for (const std::int64_t number : document) next += number == next ? 1 : 0;
        CHECK_EQ(next, count);
      }
    }
  }
}

CASE("windows are cut without padding and without losing a token") {
  check::Random random(3);
  for (const std::int64_t row_length : {1l, 2l, 256l, 5000l, 1l << 24}) {
    for (const std::int64_t limit : {0l, 1l, 2l, 9l}) {
      for (const std::int64_t longest : {row_length, 4 * row_length, row_length / 3 + 1}) {
        CHECK_EQ(faults(random_lengths(random, 3000, longest), {row_length, limit}), 0);
        CHECK_EQ(faults(random_lengths(random, 4, longest), {row_length, limit}), 0);
      }
    }
  }
  CHECK_EQ(faults({}, {8, 0}), 0);
  CHECK_EQ(faults({zephon::kMaxWindowRowLength * 40 + 1}, {zephon::kMaxWindowRowLength, 0}), 0);
}

CASE("the room for a cut window is reached") {
  // Each row is full of one piece or ends in a cut, and each document has a rest.
  const Values lengths{5, 5, 5, 5, 5, 5, 5, 5};
  const RowLimits limits{4, 0};
  const zephon::RowCount room = zephon::best_fit_wrap_room(40, 8, limits);
  Table table(room.segments, room.rows);
  const zephon::RowCount made = zephon::pack_best_fit_wrap(lengths, limits, table.out());
  CHECK_EQ(made.rows, room.rows);
  CHECK_EQ(room.rows, 10);
  CHECK_EQ(made.segments, 16);
  CHECK_EQ(room.segments, 18);  // the last two rows needed no cut
}

CASE("a stream is cut from where it was left") {
  const Values lengths{5, 0, 3, 12, 0};
  Table table(7, 2);
  zephon::WrapEnd end = zephon::pack_wrap(lengths, {4, 0}, 2, 2, table.out());
  CHECK_EQ((Values{end.rows, end.segments, end.documents, end.tokens}), (Values{2, 4, 3, 2}));
  CHECK_EQ(Values(table.document.begin(), table.document.begin() + 4), (Values{0, 2, 2, 3}));
  CHECK_EQ(Values(table.offset.begin(), table.offset.begin() + 4), (Values{2, 0, 1, 0}));
  CHECK_EQ(Values(table.length.begin(), table.length.begin() + 4), (Values{3, 1, 2, 2}));
  CHECK_EQ(table.splits, (Values{0, 2, 4}));

  const std::span<const std::int64_t> rest = std::span(lengths).subspan(3);
  end = zephon::pack_wrap(rest, {4, 0}, 2, 2, table.out());
  CHECK_EQ((Values{end.rows, end.segments, end.documents, end.tokens}), (Values{2, 2, 0, 10}));
  end = zephon::pack_wrap(rest, {4, 0}, 2, 10, table.out());
  CHECK_EQ((Values{end.rows, end.segments, end.documents, end.tokens}), (Values{0, 0, 0, 10}));
  end = zephon::pack_wrap({}, {4, 0}, 2, 0, table.out());
  CHECK_EQ((Values{end.rows, end.segments, end.documents, end.tokens}), (Values{0, 0, 0, 0}));
}

CASE("the room for a stream suffices for the unfinished row too") {
  check::Random random(4);
  for (int round = 0; round < 300; ++round) {
    Values lengths;
    const std::int64_t count = random.below(8);
    for (std::int64_t i = 0; i < count; ++i) lengths.push_back(random.below(7));
    const std::int64_t rows = random.below(6);
    const RowLimits limits{1 + random.below(8), random.below(4)};
    Table table(count + rows, rows);  // a sanitizer sees a write past it
    const zephon::WrapEnd end = zephon::pack_wrap(lengths, limits, rows, 0, table.out());
    CHECK_EQ(end.rows <= rows && end.segments <= count + rows, true);
  }
}

CHECK_MAIN
