#include "zephon/sample_gather.hpp"

#include <algorithm>
#include <numeric>

namespace zephon {
namespace {

struct Place {
  std::int64_t position;
  std::int64_t offset;
};

// The tokens both as inputs and as labels.
template <typename Token>
void widen(const Token* __restrict from, std::int64_t count, std::int64_t* __restrict inputs,
           std::int64_t* __restrict labels) noexcept {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto token = static_cast<std::int64_t>(from[i]);
    inputs[i] = token;
    labels[i] = token;
  }
}

// In the width of the tokens, where a vector holds most of them.
template <typename Token>
bool holds(const Token* tokens, std::int64_t count, std::int64_t value) noexcept {
  const auto wanted = static_cast<Token>(value);
  if (static_cast<std::int64_t>(wanted) != value) return false;
  Token found = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    found = static_cast<Token>(found | (tokens[i] == wanted ? 1 : 0));
  }
  return found != 0;
}

constexpr std::int64_t kLine = 64;

// What a sample has of the row so far.
struct Text {
  std::int64_t filled;  // tokens
  bool has_pad;         // one of them is the pad id, and that is masked
};

class Gatherer {
 public:
  Gatherer(const SampleTables& tables, const SampleRules& rules, const SampleRows& out) noexcept
      : t_(tables), rules_(rules), out_(out), length_(rules.sequence_length) {}

  SampleFault sample(std::int64_t which, std::int64_t row) const noexcept {
    const std::int64_t shuffled = shuffled_at(which);
    if (shuffled < 0 || shuffled >= t_.samples) return SampleFault::shuffle;
    Text text{};
    const SampleFault fault = read(place(shuffled), place(shuffled + 1), row, text);
    if (fault == SampleFault::none) finish(row, text);
    return fault;
  }

  // Asks for all the tokens of a sample, of which the hardware would find only those
  // behind others of the same page. What does not fit the index is left to sample().
  void prefetch(std::int64_t which) const noexcept {
    const std::int64_t shuffled = shuffled_at(which);
    if (shuffled < 0 || shuffled >= t_.samples) return;
    const Place begin = place(shuffled);
    const std::int64_t extra = rules_.extra ? 1 : 0;
    std::int64_t wanted = length_ + extra;
    for (std::int64_t at = begin.position; at >= 0 && at < t_.positions && wanted > 0; ++at) {
      const std::int64_t sequence = t_.document_index[at];
      if (sequence < 0 || sequence >= t_.sequences) return;
      const std::int64_t first = at == begin.position ? begin.offset : 0;
      const std::int64_t start = t_.starts[sequence];
      const std::int64_t length = t_.lengths[sequence];
      if (first < 0 || first > length || start < 0 || start > t_.token_count ||
          length > t_.token_count - start) {
        return;
      }
      const std::int64_t count = std::min(length - first, wanted);
      wanted -= count;
      const std::int64_t width = token_bytes(t_.type);
      const char* const from = static_cast<const char*>(t_.tokens) + (start + first) * width;
      for (std::int64_t byte = 0; byte < count * width; byte += kLine) {
        __builtin_prefetch(from + byte);
      }
    }
  }

 private:
  std::int64_t shuffled_at(std::int64_t which) const noexcept {
    return t_.wide_shuffle ? static_cast<const std::int64_t*>(t_.shuffle_index)[which]
                           : static_cast<const std::uint32_t*>(t_.shuffle_index)[which];
  }

  Place place(std::int64_t at) const noexcept {
    if (t_.wide_rows) {
      const auto* const rows = static_cast<const std::int64_t*>(t_.sample_index);
      return {rows[2 * at], rows[2 * at + 1]};
    }
    const auto* const rows = static_cast<const std::int32_t*>(t_.sample_index);
    return {rows[2 * at], rows[2 * at + 1]};
  }

  // The tokens from `begin` to `end` into inputs and, one column to the left,
  // into labels.
  SampleFault read(Place begin, Place end, std::int64_t row, Text& text) const noexcept {
    if (begin.position < 0 || begin.position > end.position || end.position >= t_.positions) {
      return SampleFault::row;
    }
    const std::int64_t extra = rules_.extra ? 1 : 0;
    for (std::int64_t at = begin.position; at <= end.position; ++at) {
      const std::int64_t sequence = t_.document_index[at];
      if (sequence < 0 || sequence >= t_.sequences) return SampleFault::document;
      const std::int64_t length = t_.lengths[sequence];
      const std::int64_t first = at == begin.position ? begin.offset : 0;
      // Compared before the extra token is added: the offset may be any integer.
      if (at == end.position && (end.offset < 0 || end.offset > length)) return SampleFault::offset;
      const std::int64_t last = at == end.position ? end.offset + extra : length;
      if (first < 0 || first > last || last > length) return SampleFault::offset;
      const std::int64_t start = t_.starts[sequence];
      if (start < 0 || start > t_.token_count || length > t_.token_count - start) {
        return SampleFault::tokens;
      }
      const std::int64_t count = last - first;
      if (count > length_ + extra - text.filled) return SampleFault::row;
      copy(start + first, count, row * length_, text);
    }
    return SampleFault::none;
  }

  void copy(std::int64_t from, std::int64_t count, std::int64_t row, Text& text) const noexcept {
    if (count == 0) return;
    with_tokens(t_.tokens, t_.type, [&](const auto* tokens) {
      tokens += from;
      std::int64_t* const inputs = out_.tokens + row;
      std::int64_t* const labels = out_.labels + row;
      const std::int64_t column = text.filled;
      // The first token is nobody's label, that behind the last column no input.
      const std::int64_t skip = column == 0 ? 1 : 0;
      const std::int64_t most = std::min(count, length_ - column);
      if (skip != 0) inputs[0] = static_cast<std::int64_t>(tokens[0]);
      if (most > skip)
        widen(tokens + skip, most - skip, inputs + column + skip, labels + column + skip - 1);
      if (most < count) labels[length_ - 1] = static_cast<std::int64_t>(tokens[most]);
      text.has_pad |= rules_.mask_pad && holds(tokens, count, rules_.pad_id);
    });
    text.filled += count;
  }

  void finish(std::int64_t row, Text text) const noexcept {
    const std::int64_t filled = text.filled;
    std::int64_t* const tokens = out_.tokens + row * length_;
    std::int64_t* const labels = out_.labels + row * length_;
    const std::int64_t inputs = std::min(filled, length_);
    const std::int64_t targets = std::max<std::int64_t>(filled - 1, 0);
    std::fill(tokens + inputs, tokens + length_, 0);
    std::fill(labels + targets, labels + length_, 0);
    if (out_.document_ends != nullptr) {
      std::uint8_t* const ends = out_.document_ends + row * length_;
      for (std::int64_t i = 0; i < inputs; ++i) ends[i] = tokens[i] == rules_.eod_id ? 1 : 0;
      std::fill(ends + inputs, ends + length_, std::uint8_t{0});
    }
    if (out_.position_ids != nullptr) positions(tokens, inputs, out_.position_ids + row * length_);
    if (out_.loss_mask != nullptr) {
      float* const loss = out_.loss_mask + row * length_;
      std::fill(loss, loss + targets, 1.0F);
      std::fill(loss + targets, loss + length_, 0.0F);
      if (rules_.mask_eod) {
        for (std::int64_t i = 0; i < inputs; ++i) {
          loss[i] = tokens[i] == rules_.eod_id ? 0.0F : loss[i];
        }
      }
      if (text.has_pad) {
        for (std::int64_t i = 0; i < targets; ++i) {
          loss[i] = labels[i] == rules_.pad_id ? 0.0F : loss[i];
        }
      }
    }
    if (text.has_pad) {
      const auto zero_pads = [pad = rules_.pad_id](std::int64_t* ids, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) ids[i] = ids[i] == pad ? 0 : ids[i];
      };
      zero_pads(tokens, inputs);
      zero_pads(labels, targets);
    }
  }

  void positions(const std::int64_t* tokens, std::int64_t inputs, std::int64_t* to) const noexcept {
    if (!rules_.restart_at_eod) {
      std::iota(to, to + length_, std::int64_t{0});
      return;
    }
    std::int64_t next = 0;
    for (std::int64_t i = 0; i < length_; ++i) {
      to[i] = next++;
      if (i < inputs && tokens[i] == rules_.eod_id) next = 0;
    }
  }

  const SampleTables& t_;
  const SampleRules& rules_;
  const SampleRows& out_;
  const std::int64_t length_;
};

}  // namespace

GatherCheck gather_samples(const SampleTables& tables, const SampleRules& rules,
                           const std::int64_t* which, const std::int64_t* rows, std::int64_t count,
                           const SampleRows& out) noexcept {
  const Gatherer gatherer(tables, rules, out);
  if (count > 0) gatherer.prefetch(which[0]);
  for (std::int64_t i = 0; i < count; ++i) {
    // Behind the last of a batch, the next batch is expected to go on in order.
    const std::int64_t next = i + 1 < count ? which[i + 1] : which[i] + 1;
    if (next < tables.samples) gatherer.prefetch(next);
    const SampleFault fault = gatherer.sample(which[i], rows[i]);
    if (fault != SampleFault::none) return {fault, which[i]};
  }
  return {};
}

}  // namespace zephon
