#include "zephon/sentence_mapping.hpp"

#include <algorithm>
#include <array>

namespace zephon {
namespace {

std::size_t index(std::int64_t value) noexcept { return static_cast<std::size_t>(value); }

// Calls emit(first sentence, one past the last) for each sample of a document.
// `target` is asked for the length to reach at its begin and after each sample.
template <typename Target, typename Emit>
void cut_document(const std::int32_t* sizes, std::int64_t first, std::int64_t last,
                  SentenceRules rules, Target target, Emit emit) noexcept {
  std::int64_t wanted = target();
  std::int64_t begin = first;
  std::int64_t length = 0;
  for (std::int64_t sentence = first; sentence < last; ++sentence) {
    length += sizes[sentence];
    const std::int64_t remaining = last - sentence - 1;
    if ((length >= wanted && remaining >= rules.cut_remaining_from &&
         sentence + 1 - begin >= rules.min_sentences) ||
        remaining == 0) {
      emit(begin, sentence + 1, wanted);
      begin = sentence + 1;
      length = 0;
      wanted = target();
    }
  }
}

}  // namespace

MarkedDocuments mark_documents(std::span<const std::int64_t> documents,
                               std::span<const std::int32_t> sizes, SentenceRules rules,
                               std::span<std::uint8_t> used) noexcept {
  MarkedDocuments marked{};
  for (std::size_t document = 0; document < used.size(); ++document) {
    const std::int64_t first = documents[document];
    const std::int64_t last = documents[document + 1];
    const std::int64_t count = last - first;
    bool has_long = false;
    if (count >= rules.long_check_from) {
      for (std::int64_t sentence = first; sentence < last; ++sentence) {
        has_long |= sizes[index(sentence)] > longest_sentence;
      }
    }
    const bool enough = count >= rules.min_sentences;
    const bool use = enough && !has_long;
    used[document] = use;
    marked.usable += use;
    marked.too_short += !enough;
    marked.too_long += enough && has_long;
    if (use) marked.largest = std::max(marked.largest, count);
  }
  return marked;
}

template <typename Entry>
MappedRows map_sentences(std::span<const std::int64_t> documents,
                         std::span<const std::int32_t> sizes, std::span<const std::uint8_t> used,
                         SentenceRules rules, TargetLength& target, std::size_t first_document,
                         std::span<Entry> out) noexcept {
  const std::size_t room = out.size() / 3;
  std::size_t rows = 0;
  std::size_t document = first_document;
  for (; document < used.size(); ++document) {
    if (used[document] == 0) continue;
    const std::int64_t first = documents[document];
    const std::int64_t last = documents[document + 1];
    if (room - rows < index(last - first)) break;
    cut_document(
        sizes.data(), first, last, rules, [&] { return target.draw(); },
        [&](std::int64_t begin, std::int64_t end, std::int64_t wanted) {
          Entry* const row = out.data() + 3 * rows++;
          row[0] = static_cast<Entry>(begin);
          row[1] = static_cast<Entry>(end);
          row[2] = static_cast<Entry>(wanted);
        });
  }
  return {document, rows};
}

template <typename Entry>
MappedRows map_blocks(std::span<const std::int64_t> documents, std::span<const std::int32_t> sizes,
                      std::span<const std::int32_t> titles, std::span<const std::uint8_t> used,
                      SentenceRules rules, std::int64_t max_length, std::size_t first_document,
                      std::size_t first_block, std::span<Entry> out) noexcept {
  const std::size_t room = out.size() / 4;
  std::size_t rows = 0;
  std::size_t document = first_document;
  for (; document < used.size(); ++document) {
    if (used[document] == 0) continue;
    const std::int64_t first = documents[document];
    const std::int64_t last = documents[document + 1];
    if (room - rows < index(last - first)) break;
    const std::int64_t wanted = max_length - titles[document];
    cut_document(
        sizes.data(), first, last, rules, [&] { return wanted; },
        [&](std::int64_t begin, std::int64_t end, std::int64_t) {
          Entry* const row = out.data() + 4 * rows;
          row[0] = static_cast<Entry>(begin);
          row[1] = static_cast<Entry>(end);
          row[2] = static_cast<Entry>(document);
          row[3] = static_cast<Entry>(first_block + rows++);
        });
  }
  return {document, rows};
}

template <typename Entry>
void shuffle_rows(std::span<Entry> rows, std::size_t columns, std::uint64_t seed) noexcept {
  // Partners depend on nothing but the generator: they are drawn ahead of the
  // swaps, so that each row is on its way into the cache.
  constexpr std::size_t ahead = 64;
  std::array<std::size_t, ahead> partners;
  std::mt19937_64 random(seed);
  std::size_t left = rows.size() / columns;
  while (left > 1) {
    const std::size_t count = std::min(ahead, left - 1);
    for (std::size_t k = 0; k < count; ++k) {
      partners[k] = static_cast<std::size_t>(random() % (left - k));
      __builtin_prefetch(rows.data() + partners[k] * columns, 1);
    }
    for (std::size_t k = 0; k < count; ++k) {
      Entry* const row = rows.data() + (left - 1 - k) * columns;
      std::swap_ranges(row, row + columns, rows.data() + partners[k] * columns);
    }
    left -= count;
  }
}

#define ZEPHON_SENTENCE_MAPPING(Entry)                                                            \
  template MappedRows map_sentences(std::span<const std::int64_t>, std::span<const std::int32_t>, \
                                    std::span<const std::uint8_t>, SentenceRules, TargetLength&,  \
                                    std::size_t, std::span<Entry>) noexcept;                      \
  template MappedRows map_blocks(std::span<const std::int64_t>, std::span<const std::int32_t>,    \
                                 std::span<const std::int32_t>, std::span<const std::uint8_t>,    \
                                 SentenceRules, std::int64_t, std::size_t, std::size_t,           \
                                 std::span<Entry>) noexcept;                                      \
  template void shuffle_rows(std::span<Entry>, std::size_t, std::uint64_t) noexcept;

ZEPHON_SENTENCE_MAPPING(std::uint32_t)
ZEPHON_SENTENCE_MAPPING(std::uint64_t)
#undef ZEPHON_SENTENCE_MAPPING

}  // namespace zephon
