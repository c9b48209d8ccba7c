#include "zephon/permutation.hpp"

#include <algorithm>
#include <bit>

namespace zephon {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kGamma = 0x9E3779B97F4A7C15U;
constexpr std::uint64_t kMix1 = 0xBF58476D1CE4E5B9U;
constexpr std::uint64_t kMix2 = 0x94D049BB133111EBU;
constexpr std::uint64_t kTableLimit = 256;
constexpr std::uint64_t kNarrowLimit = std::uint64_t{1} << 40;

std::uint64_t mulhi64(std::uint64_t x, std::uint64_t y) noexcept {
  return static_cast<std::uint64_t>((Wide{x} * y) >> 64);
}

std::uint64_t splitmix64(std::uint64_t x) noexcept {
  x += kGamma;
  x = (x ^ (x >> 30)) * kMix1;
  x = (x ^ (x >> 27)) * kMix2;
  return x ^ (x >> 31);
}

// A value of [0, size) drawn by z. 32 random bits leave a bias of at most 2^-12
// for the halves of n = 2^40; above that all 64 are used.
template <bool kWide>
std::uint64_t draw(std::uint64_t z, std::uint64_t size) noexcept {
  z *= kMix1;
  z ^= z >> 32;
  z *= kMix2;
  if constexpr (kWide) return mulhi64(z, size);
  return ((z >> 32) * size) >> 32;
}

std::uint64_t ceil_sqrt(std::uint64_t n) noexcept {
  // Newton from above in integers: the same on every machine.
  std::uint64_t root = std::uint64_t{1} << ((std::bit_width(n) + 1) / 2);
  while (true) {
    const std::uint64_t next = (root + n / root) / 2;
    if (next >= root) break;
    root = next;
  }
  return root * root < n ? root + 1 : root;
}

struct Halves {
  std::uint64_t high, low, magic;
  const std::uint64_t* keys;
};

// x / low by a multiplication: the estimate is exact or one too small.
void split(const Halves& h, std::uint64_t x, std::uint64_t& left, std::uint64_t& right) noexcept {
  left = mulhi64(x, h.magic);
  right = x - left * h.low;
  const bool over = right >= h.low;
  left += over ? 1 : 0;
  right -= over ? h.low : 0;
}

template <bool kWide>
std::uint64_t rounds_forward(const Halves& h, std::uint64_t x) noexcept {
  std::uint64_t left = 0;
  std::uint64_t right = 0;
  split(h, x, left, right);
  for (std::size_t r = 0; r < 8; r += 2) {
    left += draw<kWide>(right + h.keys[r], h.high);
    left -= left >= h.high ? h.high : 0;
    right += draw<kWide>(left + h.keys[r + 1], h.low);
    right -= right >= h.low ? h.low : 0;
  }
  return left * h.low + right;
}

template <bool kWide>
std::uint64_t rounds_inverse(const Halves& h, std::uint64_t y) noexcept {
  std::uint64_t left = 0;
  std::uint64_t right = 0;
  split(h, y, left, right);
  for (std::size_t r = 8; r > 0; r -= 2) {
    right += h.low - draw<kWide>(left + h.keys[r - 1], h.low);
    right -= right >= h.low ? h.low : 0;
    left += h.high - draw<kWide>(right + h.keys[r - 2], h.high);
    left -= left >= h.high ? h.high : 0;
  }
  return left * h.low + right;
}

template <bool kWide, bool kInverse>
std::uint64_t rounds(const Halves& h, std::uint64_t x) noexcept {
  if constexpr (kInverse) return rounds_inverse<kWide>(h, x);
  return rounds_forward<kWide>(h, x);
}

template <bool kWide, bool kInverse>
std::uint64_t walk(const Halves& h, std::uint64_t n, std::uint64_t x) noexcept {
  do {
    x = rounds<kWide, kInverse>(h, x);
  } while (x >= n);
  return x;
}

template <bool kWide, bool kInverse>
void walk_all(const Halves& h, std::uint64_t n, std::span<const std::int64_t> in,
              std::span<std::int64_t> out) noexcept {
  // Branch-free first, then the rare values that have to walk on.
  for (std::size_t k = 0; k < in.size(); ++k) {
    out[k] =
        static_cast<std::int64_t>(rounds<kWide, kInverse>(h, static_cast<std::uint64_t>(in[k])));
  }
  for (std::int64_t& value : out) {
    const auto x = static_cast<std::uint64_t>(value);
    if (x >= n) value = static_cast<std::int64_t>(walk<kWide, kInverse>(h, n, x));
  }
}

}  // namespace

std::uint64_t fold_key(std::uint64_t key, std::uint64_t word) noexcept {
  return splitmix64(key ^ word);
}

Permutation::Permutation(std::uint64_t n, std::uint64_t key) noexcept : n_(n) {
  std::uint64_t counter = key;
  const auto next = [&counter]() noexcept {
    const std::uint64_t value = splitmix64(counter);
    counter += kGamma;
    return value;
  };
  if (n <= kTableLimit) {
    for (std::size_t i = 0; i < n; ++i) table_[i] = static_cast<std::uint8_t>(i);
    for (std::uint64_t i = n - 1; i > 0; --i) {
      std::swap(table_[i], table_[mulhi64(next(), i + 1)]);
    }
    return;
  }
  high_ = ceil_sqrt(n);
  low_ = (n + high_ - 1) / high_;
  magic_ = static_cast<std::uint64_t>((Wide{1} << 64) / low_);
  for (std::uint64_t& round_key : keys_) round_key = next();
}

std::uint64_t Permutation::forward(std::uint64_t position) const noexcept {
  if (n_ <= kTableLimit) return table_[position];
  const Halves h{high_, low_, magic_, keys_.data()};
  return n_ <= kNarrowLimit ? walk<false, false>(h, n_, position)
                            : walk<true, false>(h, n_, position);
}

std::uint64_t Permutation::inverse(std::uint64_t value) const noexcept {
  if (n_ <= kTableLimit) {
    return static_cast<std::uint64_t>(
        std::find(table_.begin(), table_.end(), static_cast<std::uint8_t>(value)) - table_.begin());
  }
  const Halves h{high_, low_, magic_, keys_.data()};
  return n_ <= kNarrowLimit ? walk<false, true>(h, n_, value) : walk<true, true>(h, n_, value);
}

void Permutation::forward(std::span<const std::int64_t> in,
                          std::span<std::int64_t> out) const noexcept {
  if (n_ <= kTableLimit) {
    for (std::size_t k = 0; k < in.size(); ++k) out[k] = table_[static_cast<std::size_t>(in[k])];
    return;
  }
  const Halves h{high_, low_, magic_, keys_.data()};
  if (n_ <= kNarrowLimit) {
    walk_all<false, false>(h, n_, in, out);
  } else {
    walk_all<true, false>(h, n_, in, out);
  }
}

void Permutation::inverse(std::span<const std::int64_t> in,
                          std::span<std::int64_t> out) const noexcept {
  if (n_ <= kTableLimit) {
    std::array<std::uint8_t, kTableLimit> inverted{};
    for (std::size_t i = 0; i < n_; ++i) inverted[table_[i]] = static_cast<std::uint8_t>(i);
    for (std::size_t k = 0; k < in.size(); ++k) out[k] = inverted[static_cast<std::size_t>(in[k])];
    return;
  }
  const Halves h{high_, low_, magic_, keys_.data()};
  if (n_ <= kNarrowLimit) {
    walk_all<false, true>(h, n_, in, out);
  } else {
    walk_all<true, true>(h, n_, in, out);
  }
}

std::size_t find_outside(std::span<const std::int64_t> values, std::int64_t n) noexcept {
  const auto inside = [n](std::int64_t value) noexcept { return value >= 0 && value < n; };
  return static_cast<std::size_t>(std::find_if_not(values.begin(), values.end(), inside) -
                                  values.begin());
}

namespace {

// The units of one source in one pass: where each begins in the order they are
// taken, filling the source's table of that pass when it is not there.
std::span<const std::int64_t> unit_starts(const SourceOrder& order, std::size_t source,
                                          std::int64_t pass, const Permutation& units) noexcept {
  const auto begin = static_cast<std::size_t>(order.begin[source]);
  const auto size = static_cast<std::size_t>(order.units[source]) + 1;
  const std::span<const std::int64_t> first = order.first_row.subspan(begin, size);
  if ((order.mode[source] & kShuffleUnits) == 0) return first;
  // A pass has its place by parity, so that two neighbouring ones stay.
  const std::size_t half = static_cast<std::size_t>(pass & 1);
  const std::span<std::int64_t> starts =
      order.prefix.subspan(half * order.first_row.size() + begin, size);
  std::int64_t& held = order.held[half * order.units.size() + source];
  if (held != pass) {
    starts[0] = 0;
    for (std::size_t k = 0; k + 1 < size; ++k) {
      const std::size_t unit = units.forward(k);
      starts[k + 1] = starts[k] + first[unit + 1] - first[unit];
    }
    held = pass;
  }
  return starts;
}

}  // namespace

void locate(const SourceOrder& order, std::span<const std::int64_t> visit,
            std::span<const std::int32_t> sources, std::span<const std::int64_t> ordinals,
            std::span<std::int64_t> rows, std::span<std::int64_t> passes) noexcept {
  std::size_t at = 0;
  while (at < visit.size()) {
    // One turn per run of documents from one unit of one source in one pass.
    const auto lead = static_cast<std::size_t>(visit[at]);
    const auto source = static_cast<std::size_t>(sources[lead]);
    const auto units = static_cast<std::size_t>(order.units[source]);
    const auto begin = static_cast<std::size_t>(order.begin[source]);
    const std::int64_t documents = order.first_row[begin + units];
    const std::int64_t pass = ordinals[lead] / documents;
    const std::int64_t position = ordinals[lead] - pass * documents;
    const std::int64_t keyed = (order.mode[source] & kReshuffle) != 0 ? pass : 0;
    const auto word = static_cast<std::uint64_t>(keyed);
    const bool shuffle_units = (order.mode[source] & kShuffleUnits) != 0;
    const bool shuffle_rows = (order.mode[source] & kShuffleRows) != 0;

    const Permutation unit_order(shuffle_units ? units : 1, fold_key(order.unit_key[source], word));
    const std::span<const std::int64_t> starts = unit_starts(order, source, keyed, unit_order);
    const auto slot = static_cast<std::size_t>(
        std::upper_bound(starts.begin() + 1, starts.end() - 1, position) - starts.begin() - 1);
    const std::size_t unit = shuffle_units ? unit_order.forward(slot) : slot;
    const std::int64_t row = order.first_row[begin + unit];
    const std::int64_t low = pass * documents + starts[slot];
    const std::int64_t high = pass * documents + starts[slot + 1];
    const Permutation row_order(shuffle_rows ? static_cast<std::uint64_t>(high - low) : 1,
                                fold_key(fold_key(order.row_key[source], word), slot));
    for (; at < visit.size(); ++at) {
      const auto k = static_cast<std::size_t>(visit[at]);
      if (static_cast<std::size_t>(sources[k]) != source) break;
      if (ordinals[k] < low || ordinals[k] >= high) break;
      const std::int64_t inside = ordinals[k] - low;
      rows[k] = row + (shuffle_rows ? static_cast<std::int64_t>(
                                          row_order.forward(static_cast<std::uint64_t>(inside)))
                                    : inside);
      passes[k] = pass;
    }
  }
}

}  // namespace zephon
