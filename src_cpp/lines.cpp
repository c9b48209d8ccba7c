#include "zephon/lines.hpp"

#include <cstring>

namespace zephon {
namespace {

// Calls `visit(position)` for every '\n' until it returns false. memchr is the
// C library's own vector code, so a baseline build loses nothing here.
template <typename Visit>
void for_each_newline(std::span<const std::uint8_t> data, Visit visit) noexcept {
  const std::uint8_t* const begin = data.data();
  const std::uint8_t* at = begin;
  std::size_t left = data.size();
  while (left > 0) {
    const void* const hit = std::memchr(at, '\n', left);
    if (hit == nullptr) return;
    const auto* const newline = static_cast<const std::uint8_t*>(hit);
    if (!visit(newline - begin)) return;
    left -= static_cast<std::size_t>(newline - at) + 1;
    at = newline + 1;
  }
}

}  // namespace

std::size_t count_newlines(std::span<const std::uint8_t> data) noexcept {
  std::size_t count = 0;
  for_each_newline(data, [&](std::ptrdiff_t) {
    ++count;
    return true;
  });
  return count;
}

std::size_t find_newlines(std::span<const std::uint8_t> data, std::int64_t base,
                          std::span<std::int64_t> out) noexcept {
  std::size_t count = 0;
  for_each_newline(data, [&](std::ptrdiff_t position) {
    if (count == out.size()) return false;
    out[count++] = base + position;
    return true;
  });
  return count;
}

}  // namespace zephon
