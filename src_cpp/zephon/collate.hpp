// Collation: gather documents' tokens into rows, widen them to 64 bits, shift.
#pragma once

#include <cstddef>
#include <cstdint>

#include "zephon/segments.hpp"
#include "zephon/tokens.hpp"

namespace zephon {

// Memory that documents lie in, aligned to its token type.
struct TokenBuffer {
  const void* tokens;             // [size], of `type`
  const std::uint8_t* loss_mask;  // [size], 0 = this token is no target; null = all are
  std::int64_t size;
  TokenType type;
};

// Where the tokens of each segment of a SegmentTable lie.
struct SegmentSources {
  const TokenBuffer* buffers;       // [buffer_count]
  const std::int32_t* buffer;       // [segments], an index of `buffers`
  const std::int64_t* start;        // [segments], first token inside that buffer
  const std::uint8_t* mask_starts;  // [segments] or null, not 0 = its first token is no target
  std::int64_t buffer_count;
};

enum class SourceFault : std::uint8_t {
  none,
  buffer,  // buffer[index] names no buffer
  bounds,  // segment `index` leaves its buffer
};

struct SourceCheck {
  SourceFault fault = SourceFault::none;
  std::int64_t index = 0;
};

// The first segment that does not lie inside its buffer. Lengths must be >= 1
// (check_rows); no sum is formed that could overflow.
[[nodiscard]] SourceCheck check_sources(const SegmentTable& table,
                                        const SegmentSources& sources) noexcept;

struct CollateOptions {
  std::int64_t row_length;    // L: tokens per row before the shift, 1 <= L <= INT32_MAX
  bool shift;                 // inputs are tokens[:-1], labels tokens[1:]; else inputs are all
  std::int64_t pad_id;        // input id in padding columns
  std::int64_t ignore_index;  // label where there is no target
  std::int64_t vocab_size;    // > 0: ids must lie in [0, vocab_size); 0: not checked
  bool through_row = false;   // positions are columns: 0 to W - 1, whatever stands there
};

// Of positions and document ids: both are at most L, which fits either.
enum class IndexType : std::uint8_t { int64, int32 };

// W = L - 1 columns with a shift, L without. Null = not wanted; `labels` must be
// null without a shift. No output may overlap another or an input.
struct CollateOutputs {
  std::int64_t* input_ids;     // [rows, W]
  std::int64_t* labels;        // [rows, W]
  void* positions;             // [rows, W], from 0 in each segment and in the padding run, or
                               // through_row
  void* document_ids;          // [rows, W], the segment's number in its row from 1, 0 = padding
  std::uint8_t* padding_mask;  // [rows, W], 1 = padding
  IndexType index_type = IndexType::int64;  // of positions and document_ids
  std::int64_t* row_ids = nullptr;  // [rows, W], 1 = token, 0 = padding: the row is one document
  std::int64_t* columns = nullptr;  // [rows, W], the column of each token, -1 = padding
};

struct OutsideVocabulary {
  std::int64_t segment = -1;  // -1: every id is inside
  std::int64_t offset = 0;    // token inside the segment
  std::int64_t id = 0;
};

// Fills every wanted output of every row. The table and sources must be free of
// faults for rows of `row_length` tokens.
//
// Padding is what follows a row's segments: known by position, never by id. The
// last real token of a row with padding is real but its target is padding, so
// its label is `ignore_index`. The vocabulary check covers every token of every
// row, also one that occurs only as a label; a failure ends the call with the
// first such token and leaves the outputs partly written.
//
// One fused loop per segment: about 8 bytes written per token and wanted output (4
// for an int32 one) and one read of the source, whose first lines are prefetched some segments
// ahead; row_ids and columns are written row by row beside it, and without input_ids each output
// has a loop of its own. No allocation.
[[nodiscard]] OutsideVocabulary collate_rows(const SegmentTable& table,
                                             const SegmentSources& sources,
                                             const CollateOptions& options,
                                             const CollateOutputs& outputs) noexcept;

}  // namespace zephon
