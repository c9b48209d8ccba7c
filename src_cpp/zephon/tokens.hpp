// Integer types that token ids are stored as.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zephon {

enum class TokenType : std::uint8_t { int8, uint8, int16, uint16, int32, uint32, int64 };

// Calls `visit(pointer to the tokens)` with the pointer's real type.
template <typename Visit>
decltype(auto) with_tokens(const void* tokens, TokenType type, Visit visit) noexcept {
  switch (type) {
    case TokenType::int8:
      return visit(static_cast<const std::int8_t*>(tokens));
    case TokenType::uint8:
      return visit(static_cast<const std::uint8_t*>(tokens));
    case TokenType::int16:
      return visit(static_cast<const std::int16_t*>(tokens));
    case TokenType::uint16:
      return visit(static_cast<const std::uint16_t*>(tokens));
    case TokenType::int32:
      return visit(static_cast<const std::int32_t*>(tokens));
    case TokenType::uint32:
      return visit(static_cast<const std::uint32_t*>(tokens));
    case TokenType::int64:
      break;
  }
  return visit(static_cast<const std::int64_t*>(tokens));
}

constexpr std::int64_t token_bytes(TokenType type) noexcept {
  constexpr std::int64_t bytes[] = {1, 1, 2, 2, 4, 4, 8};
  return bytes[static_cast<std::size_t>(type)];
}

}  // namespace zephon
