#include "zephon/sample_gather.hpp"

#include <algorithm>
#include <numeric>

namespace zephon {
namespace {

struct Place {
  std::int64_t position;
  std::int64_t offset;
};

template <typename Token>
void widen(const Token* __restrict from, std::int64_t count, std::int64_t* __restrict to) noexcept {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::int64_t>(from[i]);
}

constexpr std::int64_t kAhead = 4;
constexpr std::int64_t kLines = 16;
constexpr std::int64_t kLine = 64;

class Gatherer {
 public:
  Gatherer(const SampleTables& tables, const SampleRules& rules, const SampleRows& out) noexcept
      : t_(tables), rules_(rules), out_(out), length_(rules.sequence_length) {}

  SampleFault sample(std::int64_t which, std::int64_t row) const noexcept {
    const std::int64_t shuffled = t_.wide_shuffle
                                      ? static_cast<const std::int64_t*>(t_.shuffle_index)[which]
                                      : static_cast<const std::uint32_t*>(t_.shuffle_index)[which];
    if (shuffled < 0 || shuffled >= t_.samples) return SampleFault::shuffle;
    std::int64_t filled = 0;
    const SampleFault fault = text(place(shuffled), place(shuffled + 1), row, filled);
    if (fault == SampleFault::none) finish(row, filled);
    return fault;
  }

 private:
  // The first lines of the tokens at `position`; the hardware finds the others.
  void prefetch(std::int64_t position) const noexcept {
    const std::int64_t sequence = t_.document_index[position];
    if (sequence < 0 || sequence >= t_.sequences) return;
    const std::int64_t start = t_.starts[sequence];
    if (start < 0 || start >= t_.token_count) return;
    with_tokens(t_.tokens, t_.type, [=, this](const auto* tokens) {
      const auto* const first = reinterpret_cast<const char*>(tokens + start);
      const auto width = static_cast<std::int64_t>(sizeof(*tokens));
      const std::int64_t stop = std::min(kLines * kLine / width, t_.token_count - start) * width;
      for (std::int64_t at = 0; at < stop; at += kLine) __builtin_prefetch(first + at);
    });
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
  // into labels; `filled` of them.
  SampleFault text(Place begin, Place end, std::int64_t row, std::int64_t& filled) const noexcept {
    if (begin.position < 0 || begin.position > end.position || end.position >= t_.positions) {
      return SampleFault::row;
    }
    const std::int64_t extra = rules_.extra ? 1 : 0;
    const auto look_ahead = [this, last = end.position](std::int64_t at) {
      if (at <= last) prefetch(at);
    };
    for (std::int64_t i = 0; i < kAhead; ++i) look_ahead(begin.position + i);
    for (std::int64_t at = begin.position; at <= end.position; ++at) {
      look_ahead(at + kAhead);
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
      if (count > length_ + extra - filled) return SampleFault::row;
      copy(start + first, count, row * length_, filled);
      filled += count;
    }
    return SampleFault::none;
  }

  void copy(std::int64_t from, std::int64_t count, std::int64_t row,
            std::int64_t column) const noexcept {
    with_tokens(t_.tokens, t_.type, [&](const auto* tokens) {
      tokens += from;
      widen(tokens, std::min(count, length_ - column), out_.tokens + row + column);
      const std::int64_t skip = column == 0 ? 1 : 0;  // the first token is nobody's label
      widen(tokens + skip, count - skip, out_.labels + row + column + skip - 1);
    });
  }

  void finish(std::int64_t row, std::int64_t filled) const noexcept {
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
      if (rules_.mask_pad) {
        for (std::int64_t i = 0; i < targets; ++i) {
          loss[i] = labels[i] == rules_.pad_id ? 0.0F : loss[i];
        }
      }
    }
    if (rules_.mask_pad) {
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
  for (std::int64_t i = 0; i < count; ++i) {
    const SampleFault fault = gatherer.sample(which[i], rows[i]);
    if (fault != SampleFault::none) return {fault, which[i]};
  }
  return {};
}

}  // namespace zephon
