#include "zephon/mersenne.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace zephon {

void MersenneView::seed(std::uint32_t seed) noexcept {
  key_[0] = seed;
  for (std::uint32_t at = 1; at < words; ++at) {
    const std::uint32_t before = key_[at - 1];
    key_[at] = 1812433253U * (before ^ (before >> 30)) + at;
  }
  used_ = words;
}

void MersenneView::refill() noexcept {
  constexpr std::size_t shift = 397;
  const auto twist = [](std::uint32_t high, std::uint32_t low) {
    const std::uint32_t mixed = (high & 0x80000000U) | (low & 0x7fffffffU);
    return (mixed >> 1) ^ ((low & 1U) != 0 ? 0x9908b0dfU : 0U);
  };
  std::size_t at = 0;
  for (; at < words - shift; ++at) key_[at] = key_[at + shift] ^ twist(key_[at], key_[at + 1]);
  for (; at < words - 1; ++at) {
    key_[at] = key_[at + shift - words] ^ twist(key_[at], key_[at + 1]);
  }
  key_[at] = key_[shift - 1] ^ twist(key_[at], key_[0]);
  used_ = 0;
}

std::uint64_t MersenneView::below_or_at(std::uint64_t most) noexcept {
  if (most == 0) return 0;
  const std::uint64_t mask = ~std::uint64_t{0} >> std::countl_zero(most);
  std::uint64_t value;
  if (most <= 0xffffffffU) {
    do value = next() & mask;
    while (value > most);
  } else {
    do {
      const std::uint64_t high = next();
      value = ((high << 32) | next()) & mask;
    } while (value > most);
  }
  return value;
}

template <typename Value>
void shuffle_like_numpy(std::span<Value> values, MersenneView random) noexcept {
  constexpr std::size_t ahead = 64;
  std::array<std::size_t, ahead> partners;
  std::size_t left = values.size();
  while (left > 1) {
    const std::size_t count = std::min(ahead, left - 1);
    for (std::size_t k = 0; k < count; ++k) {
      partners[k] = static_cast<std::size_t>(random.below_or_at(left - 1 - k));
      __builtin_prefetch(&values[partners[k]], 1);
    }
    for (std::size_t k = 0; k < count; ++k) std::swap(values[left - 1 - k], values[partners[k]]);
    left -= count;
  }
}

template void shuffle_like_numpy(std::span<std::uint32_t>, MersenneView) noexcept;
template void shuffle_like_numpy(std::span<std::uint64_t>, MersenneView) noexcept;

}  // namespace zephon
