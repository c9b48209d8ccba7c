#include "zephon/sample_index.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

namespace zephon {
namespace {

// Training order is shuffled, so each size is a cache miss unless it was asked
// for early; 64 documents ahead is where the gain levels off.
constexpr std::size_t prefetch_distance = 64;

// Ids that are looked at before their sizes are: few enough to stay in the
// first-level cache, so that the second read of them is free.
constexpr std::size_t checked_together = 1024;

// Documents whose sizes are fetched before samples are placed in them; the sizes
// stay in the first-level cache.
constexpr std::size_t longest_piece = 4096;

// Such pieces that a thread keeps until it knows where they begin: some
// milliseconds of work, about as long as the system lets another process run.
constexpr std::size_t most_fetched = 64;

constexpr std::int64_t not_known = -1;

constexpr std::size_t refused = ~std::size_t{0};

// Whether every id names a size; there is at least one size.
bool all_there(std::span<const std::int32_t> ids, std::size_t sizes) noexcept {
  const auto last = static_cast<std::uint32_t>(std::min<std::size_t>(sizes - 1, 0x7fffffff));
  std::uint32_t outside = 0;  // its sign bit, for an id that is negative or beyond the last
  for (const std::int32_t id : ids) {
    const auto bits = static_cast<std::uint32_t>(id);
    outside |= bits | (last - bits);
  }
  return outside >> 31 == 0;
}

// Calls visit(position, size) for each document in turn until it returns false.
// Returns the position after the last one visited, or `refused` if it comes near
// an id that names no size.
template <typename Visit>
std::size_t visit_sizes(std::span<const std::int32_t> sizes,
                        std::span<const std::int32_t> documents, std::size_t first,
                        Visit visit) noexcept {
  const std::size_t count = documents.size();
  const std::size_t ahead = count > prefetch_distance ? count - prefetch_distance : 0;
  const auto size_at = [&](std::size_t at) {
    return std::int64_t{sizes[static_cast<std::size_t>(documents[at])]};
  };
  for (std::size_t at = first; at < count;) {
    const std::size_t end = std::min(at + checked_together, count);
    const std::size_t seen = std::min(end + prefetch_distance, count);
    if (sizes.empty() || !all_there(documents.subspan(at, seen - at), sizes.size())) {
      return refused;
    }
    for (const std::size_t stop = std::min(end, ahead); at < stop; ++at) {
      __builtin_prefetch(&sizes[static_cast<std::size_t>(documents[at + prefetch_distance])]);
      if (!visit(at, size_at(at))) return at + 1;
    }
    for (; at < end; ++at) {
      if (!visit(at, size_at(at))) return at + 1;
    }
  }
  return count;
}

// The first row whose tokens are not complete with the first `tokens` of all.
std::int64_t next_row(std::int64_t tokens, SampleIndexShape shape) noexcept {
  const std::int64_t next =
      tokens < shape.extra ? 1 : (tokens - shape.extra) / shape.sequence_length + 1;
  return std::min(next, shape.samples + 1);
}

// Writes rows, one document after the other.
template <typename Row>
struct Placing {
  std::int64_t length;
  std::int64_t extra;
  std::int64_t before;  // tokens of the documents so far
  std::int64_t target;  // those that complete the next row
  Row* row;
  const Row* end;

  bool all_written() const noexcept { return row == end; }

  // At least one row is not yet written.
  void place(std::size_t position, std::int64_t size) noexcept {
    const std::int64_t after = before + size;
    // Written whether or not it is kept: whether a document completes a sample
    // is a coin toss, and a wrongly predicted branch costs more.
    write(position);
    const std::int64_t hit = target <= after ? 1 : 0;
    row += 2 * hit;
    target += length & -hit;
    while (target <= after && !all_written()) {  // a document of several samples
      write(position);
      row += 2;
      target += length;
    }
    before = after;
  }

  void write(std::size_t position) noexcept {
    row[0] = static_cast<Row>(position);
    row[1] = static_cast<Row>(target - extra - before);
  }
};

// For the rows that are completed by the tokens from `start` to `end`; it touches
// no other, which may be another thread's.
template <typename Row>
Placing<Row> placing(std::int64_t start, std::int64_t end, SampleIndexShape shape, Row* rows) {
  const std::int64_t first = next_row(start, shape);
  return {shape.sequence_length,
          shape.extra,
          start,
          first * shape.sequence_length + shape.extra,
          rows + 2 * first,
          rows + 2 * next_row(end, shape)};
}

// Tokens of the documents from `first` on.
std::int64_t count_from(std::span<const std::int32_t> sizes,
                        std::span<const std::int32_t> documents, std::size_t first) noexcept {
  std::int64_t tokens = 0;
  std::int64_t signs = 0;
  const std::size_t end = visit_sizes(sizes, documents, first, [&](std::size_t, std::int64_t size) {
    tokens += size;
    signs |= size;
    return true;
  });
  return end == refused || signs < 0 ? not_countable : tokens;
}

}  // namespace

std::int64_t count_samples(std::int64_t tokens, std::int64_t sequence_length, std::int64_t extra,
                           bool drop_last) noexcept {
  const std::int64_t usable = tokens - extra;
  const std::int64_t whole = usable / sequence_length;
  return drop_last || usable % sequence_length == 0 ? whole : whole + 1;
}

std::int64_t count_tokens(std::span<const std::int32_t> sizes,
                          std::span<const std::int32_t> documents) noexcept {
  return count_from(sizes, documents, 0);
}

namespace {

// All rows in one pass. Returns the tokens of all documents.
template <typename Row>
std::int64_t place_in_one_pass(std::span<const std::int32_t> sizes,
                               std::span<const std::int32_t> documents, SampleIndexShape shape,
                               std::span<Row> rows) noexcept {
  Placing<Row> placing{shape.sequence_length,
                       shape.extra,
                       0,
                       shape.sequence_length + shape.extra,
                       rows.data() + 2,
                       rows.data() + rows.size()};
  std::int64_t signs = 0;
  std::size_t next = 0;
  if (!placing.all_written()) {
    next = visit_sizes(sizes, documents, 0, [&](std::size_t position, std::int64_t size) {
      placing.place(position, size);
      signs |= size;
      return !placing.all_written();
    });
  }
  if (next == refused || signs < 0) return not_countable;
  const std::int64_t others = count_from(sizes, documents, next);
  return others == not_countable ? not_countable : placing.before + others;
}

// The same by several threads. Where samples begin in a piece depends on the
// tokens before it. Nearly all sizes are cache misses, so they are fetched once and
// kept until those tokens are known. Meanwhile the thread goes on with other
// pieces: a thread that the system has stopped halfway stops no other soon.
template <typename Row>
std::int64_t place_in_pieces(std::span<const std::int32_t> sizes,
                             std::span<const std::int32_t> documents, SampleIndexShape shape,
                             std::span<Row> rows, std::size_t count, std::size_t length) {
  const std::size_t pieces = (documents.size() + length - 1) / length;
  std::vector<std::atomic<std::int64_t>> sums(pieces);
  for (auto& sum : sums) sum.store(not_known, std::memory_order_relaxed);
  std::vector<std::int32_t> fetched(count * most_fetched * length);
  std::atomic<std::size_t> taken{0};
  std::atomic<std::size_t> arrived{0};
  std::atomic<bool> countable{true};
  on_threads(count, [&] {
    const std::span<std::int32_t> own = std::span(fetched).subspan(
        arrived.fetch_add(1) * most_fetched * length, most_fetched * length);
    // Pieces whose sizes are fetched, number first_waiting to end_waiting - 1 of
    // all that this thread has had.
    std::array<std::size_t, most_fetched> waiting;
    std::size_t first_waiting = 0;
    std::size_t end_waiting = 0;
    std::size_t summed = 0;  // pieces in `start`
    std::int64_t start = 0;
    for (bool more = true; more || first_waiting != end_waiting;) {
      while (first_waiting != end_waiting) {
        const std::size_t piece = waiting[first_waiting % most_fetched];
        std::int64_t sum = 0;
        while (summed < piece && (sum = sums[summed].load(std::memory_order_acquire)) >= 0) {
          start += sum;
          ++summed;
        }
        if (summed < piece) break;
        sum = sums[piece].load(std::memory_order_relaxed);
        auto here = placing(start, start + sum, shape, rows.data());
        const std::int32_t* size = &own[first_waiting % most_fetched * length];
        for (std::size_t at = piece * length; !here.all_written(); ++at) here.place(at, *size++);
        ++first_waiting;
      }
      if (!more || end_waiting - first_waiting == most_fetched) {
        std::this_thread::yield();
        continue;
      }
      const std::size_t piece = taken.fetch_add(1, std::memory_order_relaxed);
      more = piece < pieces;
      if (!more) continue;
      const std::size_t first = piece * length;
      const std::size_t end = std::min(first + length, documents.size());
      std::int32_t* const to = &own[end_waiting % most_fetched * length];
      std::int64_t sum = 0;
      std::int64_t signs = 0;
      const auto here = documents.first(std::min(end + prefetch_distance, documents.size()));
      const std::size_t done = visit_sizes(sizes, here, first, [&](std::size_t at, auto size) {
        to[at - first] = static_cast<std::int32_t>(size);
        sum += size;
        signs |= size;
        return at + 1 != end;
      });
      if (done == refused || signs < 0) {  // nothing is placed in it, and no thread waits for it
        countable = false;
        sum = 0;
      }
      sums[piece].store(sum, std::memory_order_release);
      waiting[end_waiting++ % most_fetched] = piece;
    }
  });
  if (!countable) return not_countable;
  std::int64_t tokens = 0;
  for (const auto& sum : sums) tokens += sum.load(std::memory_order_relaxed);
  return tokens;
}

}  // namespace

template <typename Row>
std::int64_t build_sample_index(std::span<const std::int32_t> sizes,
                                std::span<const std::int32_t> documents, SampleIndexShape shape,
                                std::span<Row> rows, Threads threads) {
  rows[0] = 0;
  rows[1] = 0;
  const std::size_t count = threads.worth(documents.size());
  const std::int64_t tokens =
      count == 1 ? place_in_one_pass(sizes, documents, shape, rows)
                 : place_in_pieces(sizes, documents, shape, rows, count,
                                   std::clamp<std::size_t>(threads.least_items, 1, longest_piece));
  if (tokens == not_countable) return not_countable;
  if (next_row(tokens, shape) <= shape.samples && !documents.empty()) {
    std::size_t last = documents.size() - 1;
    const auto size_at = [&](std::size_t position) {
      return sizes[static_cast<std::size_t>(documents[position])];
    };
    if (shape.extra != 0) {
      while (last > 0 && size_at(last) == 0) --last;
    }
    rows[rows.size() - 2] = static_cast<Row>(last);
    rows[rows.size() - 1] = static_cast<Row>(size_at(last) - shape.extra);
  }
  return tokens;
}

template std::int64_t build_sample_index(std::span<const std::int32_t>,
                                         std::span<const std::int32_t>, SampleIndexShape,
                                         std::span<std::int32_t>, Threads);
template std::int64_t build_sample_index(std::span<const std::int32_t>,
                                         std::span<const std::int32_t>, SampleIndexShape,
                                         std::span<std::int64_t>, Threads);

}  // namespace zephon
