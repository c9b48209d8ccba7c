#include "zephon/sentence_mapping.hpp"

#include <algorithm>
#include <array>

namespace zephon {
namespace {

std::size_t index(std::int64_t value) noexcept { return static_cast<std::size_t>(value); }

// Sentences looked at together. Long ones are rare: most such runs hold none, and
// then none of their documents needs to be looked at.
constexpr std::int64_t seen_together = 4096;

// Calls emit(first sentence, one past the last, target) for each sample of a document.
// `target` is asked for the length to reach at its begin and after each sample.
template <typename Target, typename Emit>
void cut_document(const std::int32_t* sizes, std::int64_t first, std::int64_t last,
                  SentenceRules rules, Target target, Emit emit) noexcept {
  std::int64_t wanted = target();
  std::int64_t begin = first;
  // A sample may end with the sentences from its fewest-th to this one.
  const std::int64_t fewest = std::max<std::int64_t>(rules.min_sentences, 1);
  const std::int64_t last_cut = last - 1 - rules.cut_remaining_from;
  while (begin < last) {
    std::int64_t sentence = begin + fewest - 1;
    std::int64_t end = last;
    if (sentence <= last_cut) {
      std::int64_t length = 0;
      for (std::int64_t at = begin; at < sentence; ++at) length += sizes[at];
      for (; sentence <= last_cut; ++sentence) {
        length += sizes[sentence];
        if (length >= wanted) {
          end = sentence + 1;
          break;
        }
      }
    }
    emit(begin, end, wanted);
    begin = end;
    wanted = target();
  }
}

// Sign bits of what is seen in some sizes; with SSE2 alone cheaper than the greatest of them.
struct Signs {
  std::uint32_t unusual;   // a size is negative, or of more than longest_sentence
  std::uint32_t negative;  // a size is negative
};

constexpr bool is_set(std::uint32_t sign) noexcept { return sign >> 31 != 0; }

Signs signs_of(std::span<const std::int32_t> sizes) noexcept {
  Signs signs{};
  for (const std::int32_t size : sizes) {
    const auto bits = static_cast<std::uint32_t>(size);
    signs.unusual |= bits | (longest_sentence - bits);
    signs.negative |= bits;
  }
  return signs;
}

}  // namespace

MarkedDocuments mark_documents(std::span<const std::int64_t> documents,
                               std::span<const std::int32_t> sizes, SentenceRules rules,
                               std::span<std::uint8_t> used) noexcept {
  MarkedDocuments marked{};
  std::int64_t seen = documents.empty() ? 0 : documents[0];  // end of the sentences in `signs`
  Signs signs{};
  const auto signs_in = [&](std::int64_t first, std::int64_t last) {
    return signs_of(sizes.subspan(index(first), index(last - first)));
  };
  for (std::size_t document = 0; document < used.size(); ++document) {
    const std::int64_t first = documents[document];
    const std::int64_t last = documents[document + 1];
    const std::int64_t count = last - first;
    if (last > seen) {  // a new run, which begins with this document
      const std::int64_t stop = std::max(last, std::min(first + seen_together, documents.back()));
      signs = signs_in(first, stop);
      seen = stop;
      marked.negative |= is_set(signs.negative);
    }
    bool has_long = false;
    if (is_set(signs.unusual) && count >= rules.long_check_from) {
      has_long = is_set(signs_in(first, last).unusual);
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
