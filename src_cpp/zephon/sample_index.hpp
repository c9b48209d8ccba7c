// Where each training sample begins in a concatenation of documents.
//
// The documents of `documents` (ids into `sizes`, in training order) form one
// run of tokens. Sample k begins at token k * sequence_length, and spans
// sequence_length + extra tokens; `extra` (0 or 1) is the token that only the
// labels see.
#pragma once

#include <cstdint>
#include <span>

#include "zephon/threads.hpp"

namespace zephon {

struct SampleIndexShape {
  std::int64_t sequence_length;  // > 1
  std::int64_t extra;            // 0 or 1
  std::int64_t samples;          // >= 0
};

// Samples that `tokens` (> 0) make: floor((tokens - extra) / sequence_length),
// or its ceiling when the last partial one is kept. Exact for every int64.
[[nodiscard]] std::int64_t count_samples(std::int64_t tokens, std::int64_t sequence_length,
                                         std::int64_t extra, bool drop_last) noexcept;

// Returned where a document's id is none of a size, or its size is negative.
inline constexpr std::int64_t not_countable = -1;

// Tokens in the given documents, or not_countable.
[[nodiscard]] std::int64_t count_tokens(std::span<const std::int32_t> sizes,
                                        std::span<const std::int32_t> documents) noexcept;

// Rows 0 to `shape.samples` of the index: (position in `documents`, offset).
// Row 0 is (0, 0). Row k names the first document in which the first
// k * sequence_length + extra tokens are complete, and the offset of token
// k * sequence_length in it; with extra 0 that may be the document's length.
// If the documents end before the last row is found, the last row is the end of
// the last document: with extra 1 of the last that is not empty, so that the
// offset stays a position.
//
// `rows` holds 2 * (samples + 1) values, and documents.size() fits Row. Returns the
// number of tokens in all the documents, or not_countable; the rows are valid only if
// this is at least (samples - 1) * sequence_length + extra + 1. No id is used before it
// has been compared. One gather of a size per document, prefetched. Allocates 1 MiB for
// each of several threads and 8 bytes per 4096 documents before the first row, and can
// throw std::bad_alloc only then.
template <typename Row>
std::int64_t build_sample_index(std::span<const std::int32_t> sizes,
                                std::span<const std::int32_t> documents, SampleIndexShape shape,
                                std::span<Row> rows, Threads threads = {});

extern template std::int64_t build_sample_index(std::span<const std::int32_t>,
                                                std::span<const std::int32_t>, SampleIndexShape,
                                                std::span<std::int32_t>, Threads);
extern template std::int64_t build_sample_index(std::span<const std::int32_t>,
                                                std::span<const std::int32_t>, SampleIndexShape,
                                                std::span<std::int64_t>, Threads);

}  // namespace zephon
