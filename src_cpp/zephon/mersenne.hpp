// The Mersenne Twister as numpy.random.RandomState uses it, and its shuffle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace zephon {

// A state owned by the caller: 624 words, and the number already used of them.
class MersenneView {
 public:
  static constexpr std::size_t words = 624;

  MersenneView(std::span<std::uint32_t, words> key, std::uint32_t& used) noexcept
      : key_(key), used_(used) {}

  // As RandomState(seed).
  void seed(std::uint32_t seed) noexcept;

  // The next number of the sequence.
  std::uint32_t next() noexcept {
    if (used_ == words) refill();
    std::uint32_t word = key_[used_++];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680U;
    word ^= (word << 15) & 0xefc60000U;
    return word ^ (word >> 18);
  }

  // Uniform in [0, most]: numbers masked to the bits of `most` until one fits,
  // two numbers for each where `most` takes more than 32 bits.
  std::uint64_t below_or_at(std::uint64_t most) noexcept;

 private:
  void refill() noexcept;

  std::span<std::uint32_t, words> key_;
  std::uint32_t& used_;
};

// Permutes `values` exactly as RandomState.shuffle does, and leaves the state as
// it does. Swap partners are drawn some way ahead and prefetched.
template <typename Value>
void shuffle_like_numpy(std::span<Value> values, MersenneView random) noexcept;

extern template void shuffle_like_numpy(std::span<std::uint32_t>, MersenneView) noexcept;
extern template void shuffle_like_numpy(std::span<std::uint64_t>, MersenneView) noexcept;

}  // namespace zephon
