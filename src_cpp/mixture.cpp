#include "zephon/mixture.hpp"

#include <algorithm>
#include <functional>

namespace zephon {
namespace {

__extension__ using Wide = unsigned __int128;

struct Division {
  std::uint64_t quotient, remainder;
};

Division divide(std::uint64_t x, std::uint64_t y, std::uint64_t divisor) noexcept {
  const Wide product = Wide{x} * y;
  const auto quotient = static_cast<std::uint64_t>(product / divisor);
  return {quotient, static_cast<std::uint64_t>(product - Wide{quotient} * divisor)};
}

// Cumulative rounding at one point of a piece, for one boundary between sources.
struct Rounding {
  std::uint64_t lane, before, whole;  // b(t, l); the sum over lanes below l; over all lanes
};

Rounding rounding(std::uint64_t cumulative, std::uint64_t t, std::uint64_t total,
                  std::uint64_t lane, std::uint64_t lanes) noexcept {
  const auto [quotient, remainder] = divide(cumulative, t, total);
  // Lane j rounds up iff remainder / P + (2j+1) / 2R >= 1, that is from lane `up` on.
  std::uint64_t up = lanes;
  if (remainder > 0) {
    const Wide gap = Wide{2} * lanes * (total - remainder);
    up = gap <= total
             ? 0
             : static_cast<std::uint64_t>((gap - total + 2 * Wide{total} - 1) / (2 * Wide{total}));
  }
  const auto sum_below = [&](std::uint64_t l) noexcept {
    return l * quotient + (l > up ? l - up : 0);
  };
  return {quotient + (lane >= up ? 1 : 0), sum_below(lane), sum_below(lanes)};
}

// One source in time: its k-th unit may be taken from slot floor((k-1)n/d) + 1 of
// the piece and is due at slot ceil(kn/d). Both follow from divmod(kn, d), kept
// here as words of the scratch and moved on by additions.
enum Word : std::size_t {
  kStep,      // n div d
  kStepRest,  // n mod d
  kAt,        // kn div d, k = units handed to the schedule
  kRest,      // kn mod d
  kDivisor,   // d
  kLeft,      // units that the chunk has still to take
  kWords
};
constexpr std::uint64_t kNone = ~std::uint64_t{0};

// Earliest due first. Sources wait in one list per slot until their next unit
// may be taken; units that may are a heap of (due slot, source) in one word.
class Schedule {
 public:
  Schedule(std::size_t sources, std::size_t length, std::span<std::uint64_t> scratch) noexcept
      : sources_(sources),
        rates_(scratch.subspan(0, sources * kWords)),
        ready_(scratch.subspan(sources * kWords, sources)),
        next_(scratch.subspan(sources * (kWords + 1), sources)),
        waiting_(scratch.subspan(sources * (kWords + 2), length)) {}

  std::uint64_t* rate(std::size_t source) noexcept { return &rates_[source * kWords]; }

  // Gives source i the windows of n / d with k units taken before.
  void set(std::size_t source, std::uint64_t n, std::uint64_t d, std::uint64_t k,
           std::uint64_t left) noexcept {
    std::uint64_t* const r = rate(source);
    r[kLeft] = left;
    if (left == 0) return;
    const auto [at, rest] = divide(n, k, d);
    r[kStep] = n / d;
    r[kStepRest] = n % d;
    r[kAt] = at;
    r[kRest] = rest;
    r[kDivisor] = d;
  }

  // False when a slot has nothing to take or a unit is taken after it was due.
  bool run(std::uint64_t t0, std::span<std::uint16_t> out) noexcept {
    t0_ = t0;
    size_ = 0;
    std::fill(waiting_.begin(), waiting_.end(), kNone);
    for (std::size_t i = 0; i < sources_; ++i) {
      if (rate(i)[kLeft] > 0) wait(i, 0);
    }
    for (std::size_t slot = 0; slot < out.size(); ++slot) {
      for (std::uint64_t i = waiting_[slot]; i != kNone; i = next_[i]) make_ready(i);
      if (size_ == 0 || (ready_[0] >> 16) < slot + 1) return false;
      const std::size_t taken = ready_[0] & 0xFFFF;
      out[slot] = static_cast<std::uint16_t>(taken);
      std::pop_heap(ready_.begin(), ready_.begin() + size_, std::greater<>{});
      --size_;
      if (--rate(taken)[kLeft] > 0) wait(taken, slot + 1);
    }
    return true;
  }

 private:
  // Slots of the chunk count from 0, so floor((k-1)n/d) + 1 is number
  // floor((k-1)n/d) - t0; not before `now`, where the schedule stands.
  void wait(std::size_t source, std::size_t now) noexcept {
    const std::uint64_t at = rate(source)[kAt];
    const std::uint64_t slot = std::max<std::uint64_t>(now, at > t0_ ? at - t0_ : 0);
    if (slot >= waiting_.size()) return;  // too late: another slot stays empty, run() says so
    next_[source] = waiting_[slot];
    waiting_[slot] = source;
  }

  void make_ready(std::uint64_t source) noexcept {
    std::uint64_t* const r = rate(source);
    r[kAt] += r[kStep];
    r[kRest] += r[kStepRest];
    if (r[kRest] >= r[kDivisor]) {
      r[kRest] -= r[kDivisor];
      ++r[kAt];
    }
    const std::uint64_t due = r[kAt] + (r[kRest] > 0 ? 1 : 0);
    ready_[static_cast<std::size_t>(size_++)] = ((due > t0_ ? due - t0_ : 0) << 16) | source;
    std::push_heap(ready_.begin(), ready_.begin() + size_, std::greater<>{});
  }

  std::size_t sources_;
  std::span<std::uint64_t> rates_, ready_, next_, waiting_;
  std::uint64_t t0_ = 0;
  std::ptrdiff_t size_ = 0;
};

}  // namespace

void chunk_counts(std::span<const std::int64_t> weights, std::int64_t total, std::int64_t lane,
                  std::int64_t lanes, std::int64_t t0, std::int64_t t1,
                  std::span<std::int64_t> given, std::span<std::int64_t> taken,
                  std::span<std::int64_t> first) noexcept {
  const auto p = static_cast<std::uint64_t>(total);
  const auto l = static_cast<std::uint64_t>(lane);
  const auto r = static_cast<std::uint64_t>(lanes);
  const auto begin = static_cast<std::uint64_t>(t0);
  const auto end = static_cast<std::uint64_t>(t1);
  std::uint64_t cumulative = 0;
  Rounding old_begin{};
  Rounding old_end{};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    cumulative += static_cast<std::uint64_t>(weights[i]);
    const Rounding at_begin = rounding(cumulative, begin, p, l, r);
    const Rounding at_end = rounding(cumulative, end, p, l, r);
    const std::uint64_t had = at_begin.lane - old_begin.lane;
    const std::uint64_t before =  // of the lanes below this one, inside the round
        (at_end.before - old_end.before) - (at_begin.before - old_begin.before);
    given[i] = static_cast<std::int64_t>(had);
    taken[i] = static_cast<std::int64_t>(at_end.lane - old_end.lane - had);
    first[i] = static_cast<std::int64_t>(at_begin.whole - old_begin.whole + before);
    old_begin = at_begin;
    old_end = at_end;
  }
}

std::size_t chunk_sequence_scratch(std::size_t sources, std::size_t length) noexcept {
  return sources * (kWords + 2) + length;
}

bool chunk_sequence(std::span<const std::int64_t> weights, std::int64_t total, std::int64_t t0,
                    std::span<const std::int64_t> given, std::span<const std::int64_t> taken,
                    std::span<std::uint64_t> scratch, std::span<std::uint16_t> out) noexcept {
  const std::size_t sources = weights.size();
  Schedule schedule(sources, out.size(), scratch);
  for (std::size_t i = 0; i < sources; ++i) {
    schedule.set(i, static_cast<std::uint64_t>(total), static_cast<std::uint64_t>(weights[i]),
                 static_cast<std::uint64_t>(given[i]), static_cast<std::uint64_t>(taken[i]));
  }
  if (schedule.run(static_cast<std::uint64_t>(t0), out)) return true;
  for (std::size_t i = 0; i < sources; ++i) {
    const auto left = static_cast<std::uint64_t>(taken[i]);
    schedule.set(i, out.size(), left, 0, left);
  }
  schedule.run(0, out);
  return false;
}

int greatest_source(std::span<const std::uint16_t> sequence) noexcept {
  int greatest = -1;
  for (const std::uint16_t source : sequence) greatest = std::max<int>(greatest, source);
  return greatest;
}

void number_draws(std::span<const std::uint16_t> sequence, std::span<std::int64_t> next,
                  std::span<std::int64_t> ordinals) noexcept {
  for (std::size_t k = 0; k < sequence.size(); ++k) ordinals[k] = next[sequence[k]]++;
}

void skip_draws(std::span<const std::uint16_t> sequence, std::span<std::int64_t> next) noexcept {
  for (const std::uint16_t source : sequence) ++next[source];
}

bool scale(std::span<const std::int64_t> a, std::int64_t b, std::span<const std::int64_t> d,
           std::span<std::int64_t> quotient, std::span<std::int64_t> remainder) noexcept {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 62;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const auto divisor = static_cast<std::uint64_t>(d[k]);
    const Wide product = Wide{static_cast<std::uint64_t>(a[k])} * static_cast<std::uint64_t>(b);
    if (product / divisor > kLimit) return false;
    quotient[k] = static_cast<std::int64_t>(product / divisor);
    remainder[k] = static_cast<std::int64_t>(product % divisor);
  }
  return true;
}

}  // namespace zephon
