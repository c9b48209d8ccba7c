// A set of small integers that finds its greatest member up to a bound.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace zephon {

// Subset of [0, size), empty at first. One bit per integer, above it one bit per
// word of 64 that has any set, and so on up to a single word: size * 64 / 63 bits
// in all. A call reads or writes at most two words on each of these levels, of
// which there are log64(size). Arguments are trusted to be below `size`, which is
// 1 to 2^30.
class IntegerSet {
 public:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  // May throw std::bad_alloc; nothing else here does.
  explicit IntegerSet(std::size_t size) {
    std::size_t words = 0;
    do {
      size = (size + 63) / 64;
      begin_[depth_++] = words;
      words += size;
    } while (size > 1);
    words_.resize(words);
  }

  void insert(std::size_t member) noexcept {
    for (std::size_t level = 0; level < depth_; ++level) {
      std::uint64_t& word = words_[begin_[level] + member / 64];
      const bool known = word != 0;  // the levels above say so already
      word |= std::uint64_t{1} << member % 64;
      if (known) return;
      member /= 64;
    }
  }

  void erase(std::size_t member) noexcept {
    for (std::size_t level = 0; level < depth_; ++level) {
      std::uint64_t& word = words_[begin_[level] + member / 64];
      word &= ~(std::uint64_t{1} << member % 64);
      if (word != 0) return;
      member /= 64;
    }
  }

  // The greatest member <= bound, or `none`.
  [[nodiscard]] std::size_t last_up_to(std::size_t bound) const noexcept {
    for (std::size_t level = 0; level < depth_; ++level) {
      const std::uint64_t upper = ~std::uint64_t{0} >> (63 - bound % 64);
      const std::uint64_t word = words_[begin_[level] + bound / 64] & upper;
      if (word != 0) return descend(level, bound / 64, word);
      if (bound < 64) return none;
      bound = bound / 64 - 1;
    }
    return none;
  }

 private:
  // The greatest member below the greatest bit of `word`, which is number `at` of `level`.
  [[nodiscard]] std::size_t descend(std::size_t level, std::size_t at,
                                    std::uint64_t word) const noexcept {
    for (;;) {
      at = at * 64 + 63 - static_cast<std::size_t>(std::countl_zero(word));
      if (level == 0) return at;
      word = words_[begin_[--level] + at];
    }
  }

  std::vector<std::uint64_t> words_;    // lowest level first
  std::array<std::size_t, 5> begin_{};  // first word of each level
  std::size_t depth_ = 0;
};

}  // namespace zephon
