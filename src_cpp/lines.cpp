#include "zephon/lines.hpp"

#include <algorithm>
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

bool is_blank(const std::uint8_t* at, const std::uint8_t* end) noexcept {
  // The first byte of a record settles it as a rule.
  return std::all_of(at, end, [](std::uint8_t c) { return c == ' ' || c == '\t' || c == '\r'; });
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

std::size_t scan_records(std::span<const std::uint8_t> data, std::int64_t base, OpenLine& line,
                         std::int64_t* begins, std::int64_t* ends, std::int64_t* numbers) noexcept {
  const std::uint8_t* const begin = data.data();
  std::size_t count = 0;
  for_each_newline(data, [&](std::ptrdiff_t position) {
    const std::int64_t end = base + position;
    const std::int64_t first = std::clamp<std::int64_t>(line.begin - base, 0, position);
    if (!line.blank || !is_blank(begin + first, begin + position)) {
      begins[count] = line.begin;
      ends[count] = end;
      numbers[count] = line.number;
      ++count;
    }
    line = {.begin = end + 1, .number = line.number + 1, .blank = true};
    return true;
  });
  const auto size = static_cast<std::int64_t>(data.size());
  const std::int64_t rest = std::clamp<std::int64_t>(line.begin - base, 0, size);
  line.blank = line.blank && is_blank(begin + rest, begin + size);
  return count;
}

}  // namespace zephon
