#include "zephon/token_hash.hpp"

namespace zephon {
namespace {

constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15U;

// A bijection of `sum` for each `id`, and of `id` for each `sum`.
inline std::uint64_t step(std::uint64_t sum, std::uint64_t id) noexcept {
  sum = (sum ^ id) * kFactor;
  return sum ^ (sum >> 29);
}

template <typename Token>
inline std::uint64_t widen(Token token) noexcept {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(token));
}

}  // namespace

void TokenHash::add(const void* tokens, TokenType type, std::int64_t count) noexcept {
  with_tokens(tokens, type, [&]<typename Token>(const Token* ids) {
    const Token* const end = ids + count;
    // To a turn of the first sum, then four at a time.
    for (; ids != end && count_ % 4 != 0; ++count_) {
      sums_[count_ % 4] = step(sums_[count_ % 4], widen(*ids++));
    }
    auto [a, b, c, d] = sums_;
    for (; end - ids >= 4; ids += 4, count_ += 4) {
      a = step(a, widen(ids[0]));
      b = step(b, widen(ids[1]));
      c = step(c, widen(ids[2]));
      d = step(d, widen(ids[3]));
    }
    sums_ = {a, b, c, d};
    for (; ids != end; ++count_) sums_[count_ % 4] = step(sums_[count_ % 4], widen(*ids++));
  });
}

std::uint64_t TokenHash::value() const noexcept {
  std::uint64_t value = count_;
  for (const std::uint64_t sum : sums_) value = step(value, sum);
  return value;
}

}  // namespace zephon
