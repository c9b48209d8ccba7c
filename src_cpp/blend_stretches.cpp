#include "zephon/blend_routes.hpp"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "zephon/blend_chains.hpp"
#include "zephon/cpu.hpp"

// GCC's own header initialises a vector with itself to say that it is undefined.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

// Inlined into functions that are compiled for AVX-512; nothing of this file
// runs where the processor has not been asked.
#define ZEPHON_AVX512 __attribute__((target("avx512f,avx512dq,bmi")))
#define ZEPHON_INLINE inline __attribute__((always_inline))

namespace zephon {
namespace {

constexpr std::size_t width = 8;
constexpr std::size_t settling = 256;  // steps after a guess, which are thrown away
constexpr std::size_t longest_stretch = 1 << 14;

template <std::size_t Vectors>
struct alignas(64) Stretch {
  static constexpr std::size_t room = Vectors * width;
  std::array<double, room> counts;            // infinite behind the last dataset
  std::array<std::int64_t, room> int_counts;  // the same, to write
};

template <std::size_t Vectors>
void set(Stretch<Vectors>& stretch, std::span<const std::int64_t> counts) noexcept {
  for (std::size_t at = 0; at < counts.size(); ++at) {
    stretch.counts[at] = static_cast<double>(counts[at]);
    stretch.int_counts[at] = counts[at];
  }
}

// Runs `length` steps of `Stretches` stretches side by side; stretch k begins at
// step first + k * length_between. Writes them only if `out` is not null.
template <std::size_t Vectors, std::size_t Stretches, typename Id>
ZEPHON_AVX512 ZEPHON_INLINE void advance(const double* weights, Stretch<Vectors>* stretches,
                                         std::size_t first, std::size_t length_between,
                                         std::size_t length, const BlendOutput<Id>* out) noexcept {
  __m512d weight[Vectors];
  __m512d count[Stretches][Vectors];
  double position[Stretches];
  const __m512d one = _mm512_set1_pd(1.0);
#pragma GCC unroll 8
  for (std::size_t j = 0; j < Vectors; ++j) weight[j] = _mm512_loadu_pd(weights + width * j);
#pragma GCC unroll 8
  for (std::size_t k = 0; k < Stretches; ++k) {
    position[k] = static_cast<double>(first + k * length_between);
#pragma GCC unroll 8
    for (std::size_t j = 0; j < Vectors; ++j) {
      count[k][j] = _mm512_load_pd(stretches[k].counts.data() + width * j);
    }
  }
  for (std::size_t step = 0; step < length; ++step) {
#pragma GCC unroll 8
    for (std::size_t k = 0; k < Stretches; ++k) {
      const __m512d at = _mm512_set1_pd(std::max(position[k], 1.0));
      position[k] += 1.0;
      __m512d error[Vectors];
      __m512d greatest = _mm512_set1_pd(-std::numeric_limits<double>::infinity());
#pragma GCC unroll 8
      for (std::size_t j = 0; j < Vectors; ++j) {
        error[j] = _mm512_sub_pd(_mm512_mul_pd(weight[j], at), count[k][j]);
        greatest = _mm512_max_pd(greatest, error[j]);
      }
      greatest = _mm512_max_pd(greatest, _mm512_shuffle_f64x2(greatest, greatest, 0x4e));
      greatest = _mm512_max_pd(greatest, _mm512_shuffle_f64x2(greatest, greatest, 0xb1));
      greatest = _mm512_max_pd(greatest, _mm512_permute_pd(greatest, 0x55));
      std::uint64_t equal = 0;
#pragma GCC unroll 8
      for (std::size_t j = 0; j < Vectors; ++j) {
        const __mmask8 mask = _mm512_cmp_pd_mask(error[j], greatest, _CMP_EQ_OQ);
        equal |= std::uint64_t{_cvtmask8_u32(mask)} << (width * j);
      }
      const std::uint64_t lowest = equal & (~equal + 1);
#pragma GCC unroll 8
      for (std::size_t j = 0; j < Vectors; ++j) {
        const auto mask = static_cast<__mmask8>(lowest >> (width * j));
        count[k][j] = _mm512_mask_add_pd(count[k][j], mask, count[k][j], one);
      }
      if (out != nullptr) {
        const auto dataset = static_cast<std::size_t>(__builtin_ctzll(equal));
        const std::size_t slot = first + k * length_between + step;
        out->ids[slot] = static_cast<Id>(dataset);
        out->samples[slot] = stretches[k].int_counts[dataset]++;
      }
    }
  }
#pragma GCC unroll 8
  for (std::size_t k = 0; k < Stretches; ++k) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < Vectors; ++j) {
      _mm512_store_pd(stretches[k].counts.data() + width * j, count[k][j]);
    }
  }
}

// Takes the steps from `step` to `end`, from these counts on, which become those
// at the end. Writes them only if `out` is not null.
template <std::size_t Vectors, std::size_t Stretches, typename Id>
ZEPHON_AVX512 void blend(std::span<const double> weights, std::size_t step, std::size_t end,
                         std::span<std::int64_t> counts, const BlendOutput<Id>* out) noexcept {
  constexpr std::size_t room = Vectors * width;
  alignas(64) std::array<double, room> padded{};
  std::copy(weights.begin(), weights.end(), padded.begin());
  std::array<Stretch<Vectors>, Stretches> stretches;
  for (auto& stretch : stretches) {
    stretch.counts.fill(std::numeric_limits<double>::infinity());
    stretch.int_counts.fill(0);
  }
  set(stretches[0], counts);

  bool guessing = out != nullptr;
  while (step < end) {
    const std::size_t length = std::min(longest_stretch, (end - step) / Stretches);
    guessing = guessing && length >= 2 * settling;
    for (std::size_t k = 1; guessing && k < Stretches; ++k) {
      guessing = guess_counts(weights, step + k * length - settling,
                              std::span(stretches[k].int_counts).first(weights.size()));
      set(stretches[k], std::span(stretches[k].int_counts).first(weights.size()));
    }
    if (!guessing) {
      const std::size_t rest = std::min(longest_stretch, end - step);
      advance<Vectors, 1>(padded.data(), stretches.data(), step, 0, rest, out);
      step += rest;
      continue;
    }
    advance<Vectors, Stretches - 1, Id>(padded.data(), stretches.data() + 1,
                                        step + length - settling, length, settling, nullptr);
    std::array<std::array<std::int64_t, room>, Stretches> begun;
    for (std::size_t k = 1; k < Stretches; ++k) {
      for (std::size_t at = 0; at < weights.size(); ++at) {
        stretches[k].int_counts[at] = static_cast<std::int64_t>(stretches[k].counts[at]);
      }
      begun[k] = stretches[k].int_counts;
    }
    advance<Vectors, Stretches>(padded.data(), stretches.data(), step, length, length, out);
    std::size_t again = 0;
    for (std::size_t k = 1; k < Stretches; ++k) {
      if (begun[k] == stretches[k - 1].int_counts) continue;
      stretches[k] = stretches[k - 1];
      advance<Vectors, 1>(padded.data(), &stretches[k], step + k * length, 0, length, out);
      ++again;
    }
    guessing = again <= Stretches / 2;
    stretches[0] = stretches[Stretches - 1];
    step += Stretches * length;
  }
  for (std::size_t at = 0; at < counts.size(); ++at) {
    counts[at] = static_cast<std::int64_t>(stretches[0].counts[at]);
  }
}

}  // namespace

template <typename Id>
bool blend_in_stretches(std::span<const double> weights, BlendOutput<Id> out, Threads threads) {
  if (!has_avx512() || weights.size() > most_in_stretches) return false;
  const auto run = weights.size() <= 8    ? blend<1, 6, Id>
                   : weights.size() <= 16 ? blend<2, 6, Id>
                   : weights.size() <= 32 ? blend<4, 3, Id>
                                          : blend<8, 2, Id>;
  blend_on_threads(
      weights, out.ids.size(), out.counts, threads,
      [&](std::size_t first, std::size_t end, std::span<std::int64_t> counts, bool write) noexcept {
        run(weights, first, end, counts, write ? &out : nullptr);
      });
  return true;
}

}  // namespace zephon

#else

namespace zephon {

template <typename Id>
bool blend_in_stretches(std::span<const double>, BlendOutput<Id>, Threads) {
  return false;
}

}  // namespace zephon

#endif

namespace zephon {

template bool blend_in_stretches(std::span<const double>, BlendOutput<std::int16_t>, Threads);
template bool blend_in_stretches(std::span<const double>, BlendOutput<std::int32_t>, Threads);

}  // namespace zephon
