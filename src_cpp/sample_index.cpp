#include "zephon/sample_index.hpp"

#include <algorithm>
#include <cstddef>

namespace zephon {
namespace {

// Training order is shuffled, so each size is a cache miss unless it was asked
// for early; 48 documents ahead is where the gain levels off.
constexpr std::size_t prefetch_distance = 48;

// Calls visit(position, size) for each document in turn until it returns false.
// Returns the position after the last one visited.
template <typename Visit>
std::size_t visit_sizes(const std::int32_t* sizes, std::span<const std::int32_t> documents,
                        std::size_t first, Visit visit) noexcept {
  const std::size_t count = documents.size();
  const std::size_t ahead = count > prefetch_distance ? count - prefetch_distance : 0;
  std::size_t at = first;
  for (; at < ahead; ++at) {
    __builtin_prefetch(sizes + documents[at + prefetch_distance]);
    if (!visit(at, std::int64_t{sizes[documents[at]]})) return at + 1;
  }
  for (; at < count; ++at) {
    if (!visit(at, std::int64_t{sizes[documents[at]]})) return at + 1;
  }
  return count;
}

}  // namespace

std::int64_t count_samples(std::int64_t tokens, std::int64_t sequence_length, std::int64_t extra,
                           bool drop_last) noexcept {
  const std::int64_t usable = tokens - extra;
  const std::int64_t whole = usable / sequence_length;
  return drop_last || usable % sequence_length == 0 ? whole : whole + 1;
}

bool all_within(std::span<const std::int32_t> values, std::int32_t low,
                std::int32_t high) noexcept {
  std::int32_t least = high;
  std::int32_t greatest = low;
  for (const std::int32_t value : values) {
    least = value < least ? value : least;
    greatest = value > greatest ? value : greatest;
  }
  return values.empty() || (least >= low && greatest <= high);
}

std::int64_t count_tokens(std::span<const std::int32_t> sizes,
                          std::span<const std::int32_t> documents) noexcept {
  std::int64_t tokens = 0;
  visit_sizes(sizes.data(), documents, 0, [&](std::size_t, std::int64_t size) {
    tokens += size;
    return true;
  });
  return tokens;
}

template <typename Row>
std::int64_t build_sample_index(std::span<const std::int32_t> sizes,
                                std::span<const std::int32_t> documents, SampleIndexShape shape,
                                std::span<Row> rows) noexcept {
  const std::int64_t length = shape.sequence_length;
  Row* row = rows.data();
  Row* const end_of_rows = row + rows.size();
  *row++ = 0;
  *row++ = 0;

  std::int64_t start = 0;                      // tokens before the current document
  std::int64_t target = length + shape.extra;  // tokens that the next row waits for
  const auto write = [&](std::size_t position) {
    row[0] = static_cast<Row>(position);
    row[1] = static_cast<Row>(target - shape.extra - start);
  };

  std::size_t next = 0;
  if (row != end_of_rows) {
    next = visit_sizes(sizes.data(), documents, 0, [&](std::size_t position, std::int64_t size) {
      const std::int64_t end = start + size;
      // Written whether or not it is kept: whether a document completes a
      // sample is a coin toss, and a wrongly predicted branch costs more.
      write(position);
      const bool hit = end >= target;
      row += hit ? 2 : 0;
      target += hit ? length : 0;
      if (end >= target) {  // a document longer than a sample completes several
        while (row != end_of_rows && end >= target) {
          write(position);
          row += 2;
          target += length;
        }
      }
      start = end;
      return row != end_of_rows;
    });
  }
  if (row != end_of_rows && !documents.empty()) {
    std::size_t last = documents.size() - 1;
    const auto size_at = [&](std::size_t position) {
      return sizes[static_cast<std::size_t>(documents[position])];
    };
    if (shape.extra != 0) {
      while (last > 0 && size_at(last) == 0) --last;
    }
    end_of_rows[-2] = static_cast<Row>(last);
    end_of_rows[-1] = static_cast<Row>(size_at(last) - shape.extra);
  }
  return start + count_tokens(sizes, documents.subspan(next));
}

template std::int64_t build_sample_index(std::span<const std::int32_t>,
                                         std::span<const std::int32_t>, SampleIndexShape,
                                         std::span<std::int32_t>) noexcept;
template std::int64_t build_sample_index(std::span<const std::int32_t>,
                                         std::span<const std::int32_t>, SampleIndexShape,
                                         std::span<std::int64_t>) noexcept;

}  // namespace zephon
