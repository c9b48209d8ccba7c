// Which documents, or which parts of them, make up which row: from lengths alone.
//
// Every function here is pure: the same lengths give the same rows, everywhere.
// "Splits" are those of a segment table (segments.hpp): the segments
// splits[b] to splits[b + 1] - 1 stand one after another in row b, splits[0] is 0.
//
// Lengths are trusted to be checked by `sum_lengths`, outputs to have the room
// stated; no two arrays may overlap. Working memory is taken once, at the
// start, hence std::bad_alloc is the only exception.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace zephon {

// The window packers keep something for each token of a row and each document.
inline constexpr std::int64_t kMaxWindowRowLength = std::int64_t{1} << 24;
inline constexpr std::int64_t kMaxWindowDocuments = std::int64_t{1} << 26;
inline constexpr std::int64_t kMaxTokens = std::int64_t{1} << 62;

struct RowLimits {
  std::int64_t row_length;    // tokens, >= 1
  std::int64_t max_segments;  // 0: no limit

  [[nodiscard]] std::int64_t segments() const noexcept {
    return max_segments != 0 ? max_segments : std::numeric_limits<std::int64_t>::max();
  }
};

struct LengthSum {
  std::int64_t total;  // of the lengths before `end`
  std::size_t end;     // all of them, or the first that is not as it should be
  bool overflow;       // that one is in its range, but the sum leaves kMaxTokens
};

// The sum of lengths that each lie in [low, high], low >= 0.
[[nodiscard]] LengthSum sum_lengths(std::span<const std::int64_t> length, std::int64_t low,
                                    std::int64_t high) noexcept;

enum class Fit : std::uint8_t {
  first,  // the earliest row with room
  best,   // the row with the least room that suffices; of equals the earliest
};

// Whole documents into rows, the longest first and of equals the earlier first;
// a document that fits in no row opens the next one.
//
// n = length.size() <= kMaxWindowDocuments documents of 1 to row_length tokens,
// row_length <= kMaxWindowRowLength. Writes `document` [n], the documents row
// by row and in a row as they were placed, and the first rows + 1 of `splits`
// [n + 1]; returns the rows. No more than 2 * floor(tokens / row_length) + 2 of
// them, plus n / max_segments. O(log rows) per document for the first fit;
// for the best one a handful of words and an amortised O(log) in the rows of equal
// room. Memory: at most 40 bytes per document, and for the best fit 4.2 per token of
// a row.
std::int64_t pack_decreasing(std::span<const std::int64_t> length, RowLimits limits, Fit fit,
                             std::span<std::int64_t> document, std::span<std::int64_t> splits);

// Segment i is tokens offset[i] to offset[i] + length[i] - 1 of document[i].
struct SegmentOutput {
  std::span<std::int64_t> document;
  std::span<std::int64_t> offset;
  std::span<std::int64_t> length;
  std::span<std::int64_t> splits;  // one more than rows
};

struct RowCount {
  std::int64_t rows;
  std::int64_t segments;
};

// What `pack_best_fit_wrap` may write at most, for `documents` of `tokens`
// (>= documents) in all. Segments: one per document, and one more for each row
// that is full of one piece or ends in a split, so documents +
// floor(tokens / row_length). Rows: ceil(tokens / row_length); with a limit of
// segments floor(tokens / row_length) full ones, and rows that the limit
// closed, and a last one.
[[nodiscard]] RowCount best_fit_wrap_room(std::int64_t tokens, std::int64_t documents,
                                          RowLimits limits) noexcept;

// Documents into rows without padding, cutting few of them.
//
// Documents longer than a row are first cut into pieces of row_length from their
// beginning. Then rows are filled one after the other: by the longest piece that
// fits, of equals the one that has been there longest; when none fits, the
// longest piece of all is cut to fill the row, and its rest becomes a new piece.
//
// Every token comes out once, and those of a document in ascending order.
// Without a limit of segments only the last row may be short; a row that
// reaches the limit closes as it is.
//
// length.size() <= kMaxWindowDocuments, each >= 1, the sum <= kMaxTokens,
// row_length <= kMaxWindowRowLength. A handful of words per segment, however
// many there are. Memory: 12 bytes per document and 8.2 per token of a row.
RowCount pack_best_fit_wrap(std::span<const std::int64_t> length, RowLimits limits,
                            const SegmentOutput& out);

struct WrapEnd {
  std::int64_t rows;
  std::int64_t segments;
  // Where the next row begins: `documents` are used up, and `tokens` of the one
  // after them, which is fewer than it has, or 0. Just behind the last token
  // that was taken: empty documents that follow it are not passed. Where the
  // call began if it completed no row.
  std::int64_t documents;
  std::int64_t tokens;
};

// Documents laid end to end and cut into rows, from token `skip` of the first.
//
// A row is complete with row_length tokens or max_segments segments. At most
// `rows` complete ones are made; what is left for an unfinished row does not
// count, though it may have been written behind the others.
//
// Lengths >= 0, empty documents make no segment; 0 <= skip <= length[0], 0 if
// there is none. Segments: length.size() + rows at most. O(segments + empty
// documents passed), nothing is allocated.
[[nodiscard]] WrapEnd pack_wrap(std::span<const std::int64_t> length, RowLimits limits,
                                std::int64_t rows, std::int64_t skip,
                                const SegmentOutput& out) noexcept;

}  // namespace zephon
