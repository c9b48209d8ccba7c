// Where the lines of a text file end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace zephon {

// Number of '\n' bytes in `data`. One memchr pass; no allocation.
[[nodiscard]] std::size_t count_newlines(std::span<const std::uint8_t> data) noexcept;

// Writes `base` + the position of every '\n' in `data`, ascending, to `out` and
// returns how many it wrote. Stops without writing further when `out` is full,
// so `out.size() == count_newlines(data)` receives all of them.
std::size_t find_newlines(std::span<const std::uint8_t> data, std::int64_t base,
                          std::span<std::int64_t> out) noexcept;

}  // namespace zephon
