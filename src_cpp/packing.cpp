#include "zephon/packing.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "zephon/integer_set.hpp"

namespace zephon {
namespace {

using Index = std::int32_t;  // of a document of a window; tokens of a row
constexpr Index kNone = -1;

constexpr std::size_t at(Index index) noexcept { return static_cast<std::size_t>(index); }

// Pieces, at most one for each document, in a queue for each length.
class Pool {
 public:
  Pool(std::size_t documents, std::int64_t row_length)
      : lengths_(static_cast<std::size_t>(row_length)),
        first_(std::make_unique_for_overwrite<Index[]>(static_cast<std::size_t>(row_length))),
        last_(std::make_unique_for_overwrite<Index[]>(static_cast<std::size_t>(row_length))),
        next_(std::make_unique_for_overwrite<Index[]>(documents)) {}

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }

  // `length` < row_length, as in every call.
  void add(Index document, Index length) noexcept {
    ++count_;
    next_[at(document)] = kNone;
    if (has(length)) {
      next_[at(last_[at(length)])] = document;
    } else {
      lengths_.insert(at(length));
      first_[at(length)] = document;
    }
    last_[at(length)] = document;
  }

  // The greatest length <= bound that there is, 0 if there is none.
  [[nodiscard]] Index longest(Index bound) const noexcept {
    const std::size_t found = lengths_.last_up_to(at(bound));
    return found == IntegerSet::none ? 0 : static_cast<Index>(found);
  }

  // Removes the piece of this length that was added first.
  Index take(Index length) noexcept {
    --count_;
    const Index document = first_[at(length)];
    if (next_[at(document)] == kNone) {
      lengths_.erase(at(length));
    } else {
      first_[at(length)] = next_[at(document)];
    }
    return document;
  }

 private:
  [[nodiscard]] bool has(Index length) const noexcept { return longest(length) == length; }

  IntegerSet lengths_;
  std::unique_ptr<Index[]> first_, last_;  // [row_length]; valid where lengths_ says so
  std::unique_ptr<Index[]> next_;          // [documents]
  std::size_t count_ = 0;
};

class SegmentWriter {
 public:
  explicit SegmentWriter(const SegmentOutput& out) noexcept : out_(out) { out_.splits[0] = 0; }

  void add(std::int64_t document, std::int64_t offset, std::int64_t length) noexcept {
    out_.document[segments_] = document;
    out_.offset[segments_] = offset;
    out_.length[segments_] = length;
    ++segments_;
  }

  void close_row() noexcept { out_.splits[++rows_] = static_cast<std::int64_t>(segments_); }

  [[nodiscard]] RowCount count() const noexcept {
    return {static_cast<std::int64_t>(rows_), static_cast<std::int64_t>(segments_)};
  }

 private:
  const SegmentOutput out_;
  std::size_t segments_ = 0;
  std::size_t rows_ = 0;
};

}  // namespace

LengthSum sum_lengths(std::span<const std::int64_t> length, std::int64_t low,
                      std::int64_t high) noexcept {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < length.size(); ++i) {
    if (length[i] < low || length[i] > high) return {total, i, false};
    if (length[i] > kMaxTokens - total) return {total, i, true};
    total += length[i];
  }
  return {total, length.size(), false};
}

RowCount best_fit_wrap_room(std::int64_t tokens, std::int64_t documents,
                            RowLimits limits) noexcept {
  const std::int64_t full = tokens / limits.row_length;
  std::int64_t rows = full + (tokens % limits.row_length != 0 ? 1 : 0);
  if (limits.max_segments != 0 && documents != 0) {
    // A row that the limit closed short holds no split, so full rows and their
    // splits cancel out, and max_segments of the documents' own pieces remain for each.
    rows = std::min(full + documents / limits.max_segments + 1, documents + full);
  }
  return {rows, documents + full};
}

RowCount pack_best_fit_wrap(std::span<const std::int64_t> length, RowLimits limits,
                            const SegmentOutput& out) {
  const auto row_length = static_cast<Index>(limits.row_length);
  Pool pool(length.size(), limits.row_length);
  std::vector<std::int64_t> begin(length.size());  // of what is left of each document
  SegmentWriter write(out);

  // No piece is longer than a full row, and so all of these come first.
  for (std::size_t i = 0; i < length.size(); ++i) {
    for (; begin[i] <= length[i] - row_length; begin[i] += row_length) {
      write.add(static_cast<std::int64_t>(i), begin[i], row_length);
      write.close_row();
    }
    const auto rest = static_cast<Index>(length[i] - begin[i]);
    if (rest > 0) pool.add(static_cast<Index>(i), rest);
  }

  const std::int64_t most_segments = limits.segments();
  while (!pool.empty()) {
    Index room = row_length;
    for (std::int64_t n = 0; room > 0 && n < most_segments && !pool.empty(); ++n) {
      const Index fitting = pool.longest(std::min(room, row_length - 1));
      const Index whole = fitting != 0 ? fitting : pool.longest(row_length - 1);
      const Index part = std::min(whole, room);
      const Index document = pool.take(whole);
      write.add(document, begin[at(document)], part);
      begin[at(document)] += part;
      if (part < whole) pool.add(document, whole - part);
      room -= part;
    }
    write.close_row();
  }
  return write.count();
}

WrapEnd pack_wrap(std::span<const std::int64_t> length, RowLimits limits, std::int64_t rows,
                  std::int64_t skip, const SegmentOutput& out) noexcept {
  const std::int64_t most_segments = limits.segments();
  SegmentWriter write(out);
  WrapEnd end{0, 0, 0, skip};
  std::size_t document = 0;
  std::int64_t token = skip;
  while (end.rows < rows) {
    std::int64_t room = limits.row_length;
    for (std::int64_t n = 0; room > 0 && n < most_segments; ++n) {
      while (document < length.size() && token == length[document]) {
        ++document;
        token = 0;
      }
      if (document == length.size()) return end;
      const std::int64_t taken = std::min(room, length[document] - token);
      write.add(static_cast<std::int64_t>(document), token, taken);
      token += taken;
      room -= taken;
    }
    write.close_row();
    const bool used_up = token == length[document];
    const RowCount done = write.count();
    end = {done.rows, done.segments, static_cast<std::int64_t>(document) + (used_up ? 1 : 0),
           used_up ? 0 : token};
  }
  return end;
}

}  // namespace zephon
