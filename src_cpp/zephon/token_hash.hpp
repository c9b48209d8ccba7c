// Sixty-four bits over token ids, to notice that they have changed; no secret is kept by it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "zephon/tokens.hpp"

namespace zephon {

// The value depends on the ids and their order alone, not on their integer type nor on
// the parts that they come in. Four sums take the ids in turn, each
//     s = (s ^ id) * 0x9E3779B97F4A7C15,  s ^= s >> 29
// (wrapping, ids as 64 bits with their sign), so a change of one id always changes the
// value. About a multiplication per id; no allocation.
class TokenHash {
 public:
  // `count` >= 0 ids at `tokens`, aligned to `type`.
  void add(const void* tokens, TokenType type, std::int64_t count) noexcept;

  // Over all ids so far, their number included.
  [[nodiscard]] std::uint64_t value() const noexcept;

 private:
  std::array<std::uint64_t, 4> sums_{1, 2, 3, 4};
  std::uint64_t count_ = 0;
};

}  // namespace zephon
