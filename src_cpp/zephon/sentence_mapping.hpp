// Samples made of consecutive sentences, for masked language models.
//
// `documents` has one entry more than there are documents: document d holds
// sentences documents[d] to documents[d + 1] - 1. It ascends within
// [0, sizes.size()], sizes are >= 0; both are trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

namespace zephon {

struct SentenceRules {
  std::int64_t min_sentences;       // fewer make no sample
  std::int64_t long_check_from;     // documents of at least so many are checked for long ones
  std::int64_t cut_remaining_from;  // a sample ends early only if so many sentences remain
};

inline constexpr std::uint32_t longest_sentence = 512;

struct MarkedDocuments {
  std::int64_t usable;     // documents that are used
  std::int64_t too_short;  // left out for too few sentences
  std::int64_t too_long;   // left out for a sentence over longest_sentence
  std::int64_t largest;    // sentences of the largest that is used
  bool negative;           // a sentence of a document has a negative size
};

// Writes to `used`, for each document, whether it makes samples. One pass over the
// sentences' sizes, which may be negative here, and a second over those near long ones.
MarkedDocuments mark_documents(std::span<const std::int64_t> documents,
                               std::span<const std::int32_t> sizes, SentenceRules rules,
                               std::span<std::uint8_t> used) noexcept;

// The length a sample is to reach. With ratio 0 it is `max_length`; else one in
// `ratio` draws gives a shorter one, from 2 to max_length.
class TargetLength {
 public:
  TargetLength(std::uint32_t max_length, std::uint32_t ratio, std::uint32_t seed)
      : max_length_(max_length), ratio_(ratio), random_(seed) {}

  std::int64_t draw() noexcept {
    if (ratio_ == 0) return max_length_;
    const auto number = static_cast<std::uint32_t>(random_());
    return number % ratio_ == 0 ? 2 + number % (max_length_ - 1) : max_length_;
  }

 private:
  std::uint32_t max_length_;
  std::uint32_t ratio_;
  std::mt19937 random_;
};

struct MappedRows {
  std::size_t next_document;  // the first that was not looked at
  std::size_t rows;           // rows written
};

// Rows (first sentence, one past the last, target length) for the documents
// from `first_document` on, until all are done or `out` might not hold those of
// the next. A sample ends when it has reached its target and both it and the
// rest are long enough, or with its document; a target is drawn when a document
// begins and after each sample. `out` holds 3 values per row.
template <typename Entry>
MappedRows map_sentences(std::span<const std::int64_t> documents,
                         std::span<const std::int32_t> sizes, std::span<const std::uint8_t> used,
                         SentenceRules rules, TargetLength& target, std::size_t first_document,
                         std::span<Entry> out) noexcept;

// Rows (first sentence, one past the last, document, block), resumed likewise;
// blocks count from `first_block`. The target of a document is max_length minus
// the size of its title. `out` holds 4 values per row.
template <typename Entry>
MappedRows map_blocks(std::span<const std::int64_t> documents, std::span<const std::int32_t> sizes,
                      std::span<const std::int32_t> titles, std::span<const std::uint8_t> used,
                      SentenceRules rules, std::int64_t max_length, std::size_t first_document,
                      std::size_t first_block, std::span<Entry> out) noexcept;

// Swaps row i, from the last down to the second, with row (next number of
// std::mt19937_64(seed)) % (i + 1). Rows have `columns` values.
template <typename Entry>
void shuffle_rows(std::span<Entry> rows, std::size_t columns, std::uint64_t seed) noexcept;

}  // namespace zephon
