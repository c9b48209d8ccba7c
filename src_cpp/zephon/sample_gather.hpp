// Training samples from a GPT index: which tokens, where the loss counts.
#pragma once

#include <cstdint>

#include "zephon/collate.hpp"

namespace zephon {

// An index as Megatron lays it out, over sequences of mapped tokens. Nothing in
// it is trusted: what a sample refers to is checked when the sample is read,
// since the arrays may be mapped files.
struct SampleTables {
  const void* tokens;  // [token_count], of `type`
  std::int64_t token_count;
  TokenType type;
  const std::int64_t* starts;   // [sequences], first token of each
  const std::int32_t* lengths;  // [sequences]
  std::int64_t sequences;
  const std::int32_t* document_index;  // [positions], a sequence each
  std::int64_t positions;
  const void* sample_index;  // [samples + 1, 2], (position, offset); int64 if wide_rows else int32
  bool wide_rows;
  const void* shuffle_index;  // [samples]; int64 if wide_shuffle else uint32
  bool wide_shuffle;
  std::int64_t samples;
};

struct SampleRules {
  std::int64_t sequence_length;  // L >= 1
  bool extra;                    // a sample reads L + 1 tokens, for the last label
  bool mask_pad;                 // tokens equal to pad_id have no loss and become 0
  std::int64_t pad_id;
  bool mask_eod;        // no loss where the input is eod_id
  bool restart_at_eod;  // positions begin again behind eod_id
  std::int64_t eod_id;
};

// Row-major [rows, L] each; null = not wanted (tokens and labels are).
struct SampleRows {
  std::int64_t* tokens;
  std::int64_t* labels;
  float* loss_mask;  // 1 where the label counts, else 0
  std::int64_t* position_ids;
  std::uint8_t* document_ends;  // 1 where the input is eod_id and not padding, else 0
};

enum class SampleFault : std::uint8_t {
  none,
  shuffle,   // shuffle_index[sample] is no sample
  row,       // its two rows of sample_index do not follow each other or are too long
  document,  // document_index names no sequence
  offset,    // an offset lies outside its sequence
  tokens,    // the sequence lies outside the tokens
};

struct GatherCheck {
  SampleFault fault = SampleFault::none;
  std::int64_t sample = 0;  // as given by the caller
};

// Fills row rows[i] with sample which[i] for i < count; which[i] must lie in
// [0, samples) and rows[i] inside the outputs, which must not overlap.
//
// Label j is the token behind token j. A sample whose tokens end early is
// padded on the right: input and label 0, loss 0. Padding is known by its place;
// with `mask_pad` ids equal to pad_id count as padding too. End of document is
// looked for in real tokens only. The first fault ends the call and leaves that
// row partly written.
//
// One pass per row and rule: about 20 bytes per token written, two reads of the
// source. While a sample is read, the tokens of the next one are on their way into
// the cache: of the last one given, that of the number after it, which costs a fraction
// of a copy if it is not the one that is read next. No allocation.
[[nodiscard]] GatherCheck gather_samples(const SampleTables& tables, const SampleRules& rules,
                                         const std::int64_t* which, const std::int64_t* rows,
                                         std::int64_t count, const SampleRows& out) noexcept;

}  // namespace zephon
