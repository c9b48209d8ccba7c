// Where documents of token sources lie: from (source, number) to (buffer, start, length).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace zephon {

// One buffer of tokens and the documents in it.
struct ShardPlaces {
  const std::int64_t* start;   // [documents]: first token of each
  const std::int64_t* length;  // [documents]: its tokens, may be 0
  std::int64_t documents;
  std::int64_t tokens;  // of the buffer
};

// S shards; those of source k are first_shard[k] up to, not including,
// first_shard[k + 1], at least one for each of the K sources. Shard s is buffer s.
struct TokenPlaces {
  std::span<const ShardPlaces> shards;        // [S]
  std::span<const std::int64_t> end;          // [S]: documents of its source up to and with it
  std::span<const std::int64_t> first_shard;  // [K + 1]
};

enum class PlaceFault : std::uint8_t {
  none,
  source,    // sources[index] is not in [0, K)
  row,       // rows[index] is not a document of its source
  document,  // the document does not lie inside its buffer
};

struct PlaceCheck {
  PlaceFault fault = PlaceFault::none;
  std::size_t index = 0;
};

// For each (sources[i], rows[i]) the document's buffer, start and length there.
// Stops at the first fault; what lies before it is written. All spans are of one size.
//
// O(log shards of the source) per document. The tables are large and asked in
// random order, so each document's entries are fetched some documents ahead. No allocation.
[[nodiscard]] PlaceCheck find_places(const TokenPlaces& places,
                                     std::span<const std::int32_t> sources,
                                     std::span<const std::int64_t> rows,
                                     std::span<std::int32_t> buffer, std::span<std::int64_t> start,
                                     std::span<std::int64_t> length) noexcept;

}  // namespace zephon
