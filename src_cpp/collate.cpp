#include "zephon/collate.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

namespace zephon {
namespace {

template <typename Visit>
decltype(auto) with_tokens(const TokenBuffer& buffer, Visit visit) noexcept {
  return zephon::with_tokens(buffer.tokens, buffer.type, visit);
}

std::int64_t token_at(const TokenBuffer& buffer, std::int64_t index) noexcept {
  return with_tokens(buffer,
                     [=](const auto* tokens) { return static_cast<std::int64_t>(tokens[index]); });
}

// The sign bit of the result is set iff `id` is not in [0, last], last >= 0.
// Two instructions per vector even where 64-bit compares are missing (SSE2).
inline std::uint64_t outside(std::int64_t id, std::uint64_t last) noexcept {
  const auto bits = static_cast<std::uint64_t>(id);
  return bits | (last - bits);
}

constexpr bool is_outside(std::uint64_t bits) noexcept { return (bits >> 63) != 0; }

// Where a run of tokens goes: `labels` lies one column before the others.
template <typename Index>
struct Destination {
  std::int64_t* input_ids;
  std::int64_t* labels;
  Index* positions;
  Index* document_ids;
};

// What a run is copied to besides input_ids; kAny is any set without them, which no batch is
// made of, so it has no loop of its own.
enum : unsigned { kLabels = 1, kPositions = 2, kDocumentIds = 4, kAny = 8, kSubsets = 9 };

// One pass over `count` tokens that writes exactly the outputs in `kWanted`;
// returns the union of outside() over them.
template <typename Token, typename Index, unsigned kWanted>
std::uint64_t copy_run(const Token* __restrict tokens, std::int64_t count,
                       const Destination<Index>& to, std::int64_t position, Index document,
                       std::uint64_t last) noexcept {
  std::int64_t* __restrict const input_ids = to.input_ids;
  std::int64_t* __restrict const labels = to.labels;
  Index* __restrict const positions = to.positions;
  Index* __restrict const document_ids = to.document_ids;
  std::uint64_t seen = 0;
  if constexpr (kWanted == kAny) {
    for (std::int64_t i = 0; i < count; ++i) {
      seen |= outside(static_cast<std::int64_t>(tokens[i]), last);
    }
    if (labels != nullptr) std::copy_n(tokens, count, labels);
    if (positions != nullptr) std::iota(positions, positions + count, static_cast<Index>(position));
    if (document_ids != nullptr) std::fill_n(document_ids, count, document);
    return seen;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const auto id = static_cast<std::int64_t>(tokens[i]);
    input_ids[i] = id;
    if constexpr ((kWanted & kLabels) != 0) labels[i] = id;
    if constexpr ((kWanted & kPositions) != 0) positions[i] = static_cast<Index>(position + i);
    if constexpr ((kWanted & kDocumentIds) != 0) document_ids[i] = document;
    seen |= outside(id, last);
  }
  return seen;
}

template <typename Token, typename Index>
using CopyRun = std::uint64_t (*)(const Token* __restrict, std::int64_t, const Destination<Index>&,
                                  std::int64_t, Index, std::uint64_t) noexcept;

template <typename Token, typename Index, unsigned... kSubset>
constexpr std::array<CopyRun<Token, Index>, kSubsets> copy_runs(
    std::integer_sequence<unsigned, kSubset...>) noexcept {
  return {copy_run<Token, Index, kSubset>...};
}

template <typename Token, typename Index>
constexpr std::array<CopyRun<Token, Index>, kSubsets> kCopyRuns =
    copy_runs<Token, Index>(std::make_integer_sequence<unsigned, kSubsets>{});

// Measured: 16 lines of the document four ahead; more or further is the same.
constexpr std::int64_t kPrefetchAhead = 4;
constexpr std::int64_t kPrefetchLines = 16;
constexpr std::int64_t kLine = 64;

void prefetch(const TokenBuffer& buffer, std::int64_t start, std::int64_t length) noexcept {
  with_tokens(buffer, [=](const auto* tokens) {
    const auto width = static_cast<std::int64_t>(sizeof(*tokens));
    const auto* const first = reinterpret_cast<const char*>(tokens + start);
    // Compared in tokens: length * width could overflow.
    const std::int64_t bytes = std::min(length, kPrefetchLines * kLine) * width;
    const std::int64_t stop = std::min(bytes, kPrefetchLines * kLine);
    for (std::int64_t at = 0; at < stop; at += kLine) __builtin_prefetch(first + at);
  });
}

template <typename Index>
class Collator {
 public:
  Collator(const SegmentTable& table, const SegmentSources& sources, const CollateOptions& options,
           const CollateOutputs& outputs) noexcept
      : table_(table),
        sources_(sources),
        options_(options),
        out_(outputs),
        positions_(static_cast<Index*>(outputs.positions)),
        document_ids_(static_cast<Index*>(outputs.document_ids)),
        width_(options.shift ? options.row_length - 1 : options.row_length),
        checked_(options.vocab_size > 0),
        last_id_(static_cast<std::uint64_t>(options.vocab_size) - 1),
        wanted_(outputs.input_ids == nullptr
                    ? kAny
                    : (outputs.labels != nullptr ? kLabels : 0u) |
                          (outputs.positions != nullptr ? kPositions : 0u) |
                          (outputs.document_ids != nullptr ? kDocumentIds : 0u)) {}

  OutsideVocabulary run() const noexcept {
    for (std::int64_t s = 0; s < std::min(kPrefetchAhead, table_.segments); ++s) look_ahead(s);
    for (std::int64_t row = 0; row < table_.rows; ++row) {
      const std::int64_t first = table_.row_splits[row];
      std::int64_t column = 0;
      for (std::int64_t s = first; s < table_.row_splits[row + 1]; ++s) {
        if (s + kPrefetchAhead < table_.segments) look_ahead(s + kPrefetchAhead);
        const std::uint64_t seen = segment(row, s, column, static_cast<Index>(s - first + 1));
        if (checked_ && is_outside(seen)) return first_outside(s);
        column += table_.length[s];
      }
      padding(row, column);
      through_row(row, column);
    }
    return {};
  }

 private:
  const TokenBuffer& buffer_of(std::int64_t s) const noexcept {
    return sources_.buffers[sources_.buffer[s]];
  }

  void look_ahead(std::int64_t s) const noexcept {
    prefetch(buffer_of(s), sources_.start[s], table_.length[s]);
  }

  // Segment `s`, whose first token stands in `column`. Its tokens are both an
  // input and a target, but for the row's first (never a target) and, with a
  // shift, the token in the last column (only a target).
  std::uint64_t segment(std::int64_t row, std::int64_t s, std::int64_t column,
                        Index document) const noexcept {
    const TokenBuffer& buffer = buffer_of(s);
    const std::int64_t start = sources_.start[s];
    const std::int64_t length = table_.length[s];
    const std::int64_t here = row * width_ + column;
    const std::int64_t first_target = column == 0 ? 1 : 0;
    const std::int64_t inputs = std::min(length, width_ - column);
    std::uint64_t seen = 0;

    if (first_target == 1) {
      const std::int64_t id = token_at(buffer, start);
      if (inputs > 0) {
        if (out_.input_ids != nullptr) out_.input_ids[here] = id;
        if (positions_ != nullptr) positions_[here] = 0;
        if (document_ids_ != nullptr) document_ids_[here] = document;
      }
      seen |= outside(id, last_id_);
    }
    if (inputs > first_target) {
      const auto at = [=]<typename Value>(Value* base, std::int64_t back) -> Value* {
        return base == nullptr ? nullptr : base + (here + first_target - back);
      };
      const Destination<Index> to{at(out_.input_ids, 0), at(out_.labels, 1), at(positions_, 0),
                                  at(document_ids_, 0)};
      seen |= with_tokens(buffer, [&]<typename Token>(const Token* tokens) {
        return kCopyRuns<Token, Index>[wanted_](
            tokens + start + first_target, inputs - first_target, to,
            options_.through_row ? column + first_target : first_target, document, last_id_);
      });
    }
    if (const std::int64_t i = std::max(inputs, first_target); i < length) {
      const std::int64_t id = token_at(buffer, start + i);
      if (out_.labels != nullptr) out_.labels[here + i - 1] = id;
      seen |= outside(id, last_id_);
    }

    if (out_.labels != nullptr) mask_labels(s, column, out_.labels + here);
    return seen;
  }

  // `labels` points at the column of the segment's first token.
  void mask_labels(std::int64_t s, std::int64_t column, std::int64_t* labels) const noexcept {
    if (const std::uint8_t* const mask = buffer_of(s).loss_mask; mask != nullptr) {
      const std::uint8_t* const targets = mask + sources_.start[s];
      for (std::int64_t i = column == 0 ? 1 : 0; i < table_.length[s]; ++i) {
        labels[i - 1] = targets[i] != 0 ? labels[i - 1] : options_.ignore_index;
      }
    }
    if (column > 0 && sources_.mask_starts != nullptr && sources_.mask_starts[s] != 0) {
      labels[-1] = options_.ignore_index;
    }
  }

  // Everything of `row` after its `filled` tokens.
  void padding(std::int64_t row, std::int64_t filled) const noexcept {
    const std::int64_t begin = row * width_;
    const std::int64_t real = std::min(filled, width_);
    const auto pad = [=, this](auto* out, std::int64_t from, auto value) {
      if (out != nullptr) std::fill(out + (begin + from), out + (begin + width_), value);
    };
    if (out_.padding_mask != nullptr) std::fill_n(out_.padding_mask + begin, real, std::uint8_t{0});
    pad(out_.padding_mask, real, std::uint8_t{1});
    pad(out_.input_ids, real, options_.pad_id);
    pad(document_ids_, real, Index{0});
    // The last real token has no target either.
    pad(out_.labels, std::clamp<std::int64_t>(filled - 1, 0, width_), options_.ignore_index);
    if (positions_ != nullptr) {
      const std::int64_t zero = options_.through_row ? 0 : real;
      for (std::int64_t i = real; i < width_; ++i) {
        positions_[begin + i] = static_cast<Index>(i - zero);
      }
    }
  }

  // What depends on nothing but the `filled` tokens of `row`.
  void through_row(std::int64_t row, std::int64_t filled) const noexcept {
    const std::int64_t begin = row * width_;
    const std::int64_t real = std::min(filled, width_);
    if (std::int64_t* const out = out_.row_ids; out != nullptr) {
      std::fill(out + begin, out + (begin + real), 1);
      std::fill(out + (begin + real), out + (begin + width_), 0);
    }
    if (std::int64_t* const out = out_.columns; out != nullptr) {
      std::iota(out + begin, out + (begin + real), 0);
      std::fill(out + (begin + real), out + (begin + width_), -1);
    }
  }

  OutsideVocabulary first_outside(std::int64_t s) const noexcept {
    for (std::int64_t i = 0; i < table_.length[s]; ++i) {
      const std::int64_t id = token_at(buffer_of(s), sources_.start[s] + i);
      if (is_outside(outside(id, last_id_))) return {s, i, id};
    }
    return {};  // not reached: the caller has seen one
  }

  const SegmentTable& table_;
  const SegmentSources& sources_;
  const CollateOptions& options_;
  const CollateOutputs& out_;
  Index* const positions_;
  Index* const document_ids_;
  const std::int64_t width_;
  const bool checked_;
  const std::uint64_t last_id_;
  const unsigned wanted_;
};

}  // namespace

SourceCheck check_sources(const SegmentTable& table, const SegmentSources& sources) noexcept {
  for (std::int64_t s = 0; s < table.segments; ++s) {
    const std::int64_t buffer = sources.buffer[s];
    if (buffer < 0 || buffer >= sources.buffer_count) return {SourceFault::buffer, s};
    const std::int64_t size = sources.buffers[buffer].size;
    const std::int64_t start = sources.start[s];
    if (start < 0 || start > size || table.length[s] > size - start) {
      return {SourceFault::bounds, s};
    }
  }
  return {};
}

OutsideVocabulary collate_rows(const SegmentTable& table, const SegmentSources& sources,
                               const CollateOptions& options,
                               const CollateOutputs& outputs) noexcept {
  if (outputs.index_type == IndexType::int32) {
    return Collator<std::int32_t>(table, sources, options, outputs).run();
  }
  return Collator<std::int64_t>(table, sources, options, outputs).run();
}

}  // namespace zephon
