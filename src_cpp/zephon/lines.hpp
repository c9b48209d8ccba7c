// Where the lines of a text file end, and which of them are records.
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

// The line that a text has been read into so far.
struct OpenLine {
  std::int64_t begin = 0;   // its first byte in the text
  std::int64_t number = 1;  // it is the number-th line
  bool blank = true;        // nothing but ' ', '\t' and '\r' in it until now
};

// Goes on through a text that is read piece by piece: `data` lies at `base` of
// the text, `line` is the line that the piece before ended in, with
// line.begin <= base + data.size(); bytes of `data` before it hold no '\n'. Of every line that a
// '\n' of `data` ends and that is not blank it writes where it begins and ends (without the '\n')
// and its number, and returns how many these are. `line` becomes the line that `data` ends in. One
// memchr pass; no allocation. The three outputs must have room for count_newlines(data) values
// each.
std::size_t scan_records(std::span<const std::uint8_t> data, std::int64_t base, OpenLine& line,
                         std::int64_t* begins, std::int64_t* ends, std::int64_t* numbers) noexcept;

}  // namespace zephon
