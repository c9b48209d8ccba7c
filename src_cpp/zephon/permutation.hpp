// A permutation of [0, n) that can be asked at any position, and the order of
// documents that is built from it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace zephon {

// Step of the key derivation: the SplitMix64 output function of `key ^ word`.
// For a fixed key it is a bijection of `word`, so two words never share a key.
[[nodiscard]] std::uint64_t fold_key(std::uint64_t key, std::uint64_t word) noexcept;

// A bijection of [0, n) drawn by `key`, for 1 <= n <= 2^62.
//
// n <= 256 is a Fisher-Yates table; a larger n is 8 rounds over two halves of
// mixed radix a x b >= n, walked until the value is below n (a*b - n < a, so a
// walk happens with probability below 1/sqrt(n)). Which of the two is used
// depends on n alone. Construction costs at most 256 steps and no allocation;
// a position costs some 10 multiplications and no memory access above n = 256.
class Permutation {
 public:
  Permutation(std::uint64_t n, std::uint64_t key) noexcept;

  // Requires a position in [0, n). inverse(forward(x)) == x.
  [[nodiscard]] std::uint64_t forward(std::uint64_t position) const noexcept;
  [[nodiscard]] std::uint64_t inverse(std::uint64_t value) const noexcept;

  // Element by element; `out` has the size of `in` and may be the same memory.
  void forward(std::span<const std::int64_t> in, std::span<std::int64_t> out) const noexcept;
  void inverse(std::span<const std::int64_t> in, std::span<std::int64_t> out) const noexcept;

 private:
  std::uint64_t n_;
  std::uint64_t high_ = 1;   // a: number of values of the left half
  std::uint64_t low_ = 1;    // b: number of values of the right half
  std::uint64_t magic_ = 0;  // floor(2^64 / b)
  std::array<std::uint64_t, 8> keys_{};
  std::array<std::uint8_t, 256> table_{};
};

// Index of the first element outside [0, n), or `values.size()`.
[[nodiscard]] std::size_t find_outside(std::span<const std::int64_t> values,
                                       std::int64_t n) noexcept;

// How K sources are cut into units and in which order those are taken.
//
// Source i has units[i] units. Its slice of `first_row` and of each of the two
// halves of `prefix` begins at begin[i] and is units[i] + 1 long; first_row
// holds the first document of each unit in file order and, last, their number,
// which is at least 1.
struct SourceOrder {
  std::span<const std::int64_t> units;      // [K]
  std::span<const std::int64_t> begin;      // [K]
  std::span<const std::int64_t> first_row;  // [sum(units + 1)]
  std::span<const std::uint8_t> mode;       // [K], sum of the flags below
  std::span<const std::uint64_t> unit_key;  // [K]
  std::span<const std::uint64_t> row_key;   // [K]
  std::span<std::int64_t> prefix;           // [2 * sum(units + 1)], filled on demand
  std::span<std::int64_t> held;             // [2 * K], pass that a half of prefix holds, or -1
};
inline constexpr std::uint8_t kShuffleUnits = 1;  // the units of a pass are permuted
inline constexpr std::uint8_t kShuffleRows = 2;   // the documents of a unit are permuted
inline constexpr std::uint8_t kReshuffle = 4;     // with new keys in every pass

// For k in `visit` (positions in the arrays that follow): the document that
// source `sources[k]` gives as its `ordinals[k]`-th, as row in file order and
// number of the pass. Visiting equal sources and neighbouring ordinals one
// after the other is fastest; the result does not depend on it.
//
// Requires sources in [0, K), ordinals >= 0 and all spans of equal size. Not
// to be called from two threads on the same `prefix` and `held`.
// O(log units) per document, O(units) when a pass is first met.
void locate(const SourceOrder& order, std::span<const std::int64_t> visit,
            std::span<const std::int32_t> sources, std::span<const std::int64_t> ordinals,
            std::span<std::int64_t> rows, std::span<std::int64_t> passes) noexcept;

}  // namespace zephon
