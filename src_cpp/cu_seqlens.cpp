#include "zephon/cu_seqlens.hpp"

#include <algorithm>
#include <numeric>

namespace zephon {
namespace {

// Calls `boundary(end)` for every boundary of `row` after the leading 0.
template <typename Boundary>
void for_each_boundary(const SegmentTable& table, std::int64_t row, std::int64_t width,
                       bool include_padding, bool joined, Boundary boundary) noexcept {
  std::int64_t at = 0;
  const std::int64_t* const end = table.length + table.row_splits[row + 1];
  const std::int64_t* length = table.length + table.row_splits[row];
  if (joined) {
    at = std::min(std::accumulate(length, end, at), width);
    if (at > 0) boundary(at);
  } else {
    for (; length < end && at < width; ++length) {
      at = std::min(at + *length, width);
      boundary(at);
    }
  }
  if (include_padding && at < width) boundary(width);
}

}  // namespace

std::int64_t count_boundaries(const SegmentTable& table, std::int64_t width,
                              bool include_padding) noexcept {
  std::int64_t most = 0;
  for (std::int64_t row = 0; row < table.rows; ++row) {
    std::int64_t count = 1;
    for_each_boundary(table, row, width, include_padding, false, [&](std::int64_t) { ++count; });
    most = std::max(most, count);
  }
  return most;
}

void row_cu_seqlens(const SegmentTable& table, std::int64_t width, bool include_padding,
                    bool joined, std::int32_t fill, std::int64_t slots, std::int32_t* cu_seqlens,
                    std::int32_t* max_seqlen) noexcept {
  for (std::int64_t row = 0; row < table.rows; ++row) {
    std::int32_t* next = cu_seqlens + row * slots;
    std::int32_t* const end = next + slots;
    std::int32_t last = 0;
    std::int32_t longest = 0;
    *next++ = 0;
    for_each_boundary(table, row, width, include_padding, joined, [&](std::int64_t boundary) {
      const auto here = static_cast<std::int32_t>(boundary);  // <= width <= INT32_MAX
      longest = std::max(longest, here - last);
      *next++ = last = here;
    });
    std::fill(next, end, fill);
    if (max_seqlen != nullptr) max_seqlen[row] = longest;
  }
}

void row_seq_lens(const SegmentTable& table, std::int64_t width, bool joined, std::int64_t unused,
                  std::int64_t slots, std::int64_t* seq_lens, std::int64_t* padded) noexcept {
  for (std::int64_t row = 0; row < table.rows; ++row) {
    const auto write = [=](std::int64_t* out, bool with_padding) {
      if (out == nullptr) return;
      std::int64_t* next = out + row * slots;
      std::int64_t* const end = next + slots;
      std::int64_t last = 0;
      for_each_boundary(table, row, width, false, joined, [&](std::int64_t boundary) {
        *next++ = boundary - last;
        last = boundary;
      });
      if (with_padding && last > 0) next[-1] += width - last;
      std::fill(next, end, unused);
    };
    write(seq_lens, false);
    write(padded, true);
  }
}

DocumentCount count_documents(const SegmentTable& table, std::int64_t width, bool joined) noexcept {
  DocumentCount found;
  for (std::int64_t row = 0; row < table.rows; ++row) {
    std::int64_t count = 0;
    std::int64_t last = 0;
    for_each_boundary(table, row, width, false, joined, [&](std::int64_t boundary) {
      found.longest = std::max(found.longest, boundary - last);
      last = boundary;
      ++count;
    });
    found.most = std::max(found.most, count);
    if (count == 0 && found.empty_row < 0) found.empty_row = row;
  }
  return found;
}

}  // namespace zephon
