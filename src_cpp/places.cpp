#include "zephon/places.hpp"

#include <algorithm>
#include <array>

namespace zephon {
namespace {

// Documents whose entries are being fetched while others are looked up.
constexpr std::size_t kAhead = 16;

struct Local {
  std::size_t shard;
  std::size_t document;  // inside the shard
};

PlaceFault locate_shard(const TokenPlaces& places, std::int32_t source, std::int64_t row,
                        Local& found) noexcept {
  const auto sources = static_cast<std::int64_t>(places.first_shard.size()) - 1;
  if (source < 0 || source >= sources) return PlaceFault::source;
  const auto first = static_cast<std::size_t>(places.first_shard[static_cast<std::size_t>(source)]);
  const auto last =
      static_cast<std::size_t>(places.first_shard[static_cast<std::size_t>(source) + 1]);
  const auto ends = places.end.subspan(first, last - first);
  if (row < 0 || row >= ends.back()) return PlaceFault::row;
  const auto inside =
      static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), row) - ends.begin());
  found.shard = first + inside;
  found.document = static_cast<std::size_t>(inside == 0 ? row : row - ends[inside - 1]);
  return PlaceFault::none;
}

}  // namespace

PlaceCheck find_places(const TokenPlaces& places, std::span<const std::int32_t> sources,
                       std::span<const std::int64_t> rows, std::span<std::int32_t> buffer,
                       std::span<std::int64_t> start, std::span<std::int64_t> length) noexcept {
  std::array<Local, kAhead> ring{};
  const std::size_t count = rows.size();
  std::size_t fetched = 0;
  PlaceCheck check;
  for (std::size_t i = 0; i < count; ++i) {
    for (; fetched < std::min(count, i + kAhead) && check.fault == PlaceFault::none; ++fetched) {
      Local& local = ring[fetched % kAhead];
      check.fault = locate_shard(places, sources[fetched], rows[fetched], local);
      check.index = fetched;
      if (check.fault != PlaceFault::none) break;
      __builtin_prefetch(places.shards[local.shard].start + local.document);
      __builtin_prefetch(places.shards[local.shard].length + local.document);
    }
    if (check.fault != PlaceFault::none && check.index == i) return check;
    const Local& local = ring[i % kAhead];
    const ShardPlaces& shard = places.shards[local.shard];
    const std::int64_t first = shard.start[local.document];
    const std::int64_t tokens = shard.length[local.document];
    if (first < 0 || tokens < 0 || first > shard.tokens || tokens > shard.tokens - first) {
      return {PlaceFault::document, i};
    }
    buffer[i] = static_cast<std::int32_t>(local.shard);
    start[i] = first;
    length[i] = tokens;
  }
  return {};
}

}  // namespace zephon
