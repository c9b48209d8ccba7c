#include <algorithm>
#include <limits>

#include "zephon/blend_chains.hpp"
#include "zephon/blend_routes.hpp"

namespace zephon {
namespace {

// Takes the steps from `first` to `end`, and writes them only if `out` is not null.
template <typename Id>
void take_steps(std::span<const double> weights, std::span<const std::int64_t> limits,
                std::size_t first, std::size_t end, std::span<std::int64_t> counts,
                const BlendOutput<Id>* out) noexcept {
  for (std::size_t step = first; step < end; ++step) {
    const double position = std::max(static_cast<double>(step), 1.0);
    std::size_t best = 0;
    double best_error = -std::numeric_limits<double>::infinity();
    for (std::size_t dataset = 0; dataset < weights.size(); ++dataset) {
      if (!limits.empty() && counts[dataset] == limits[dataset]) continue;
      const double error = weights[dataset] * position - static_cast<double>(counts[dataset]);
      if (error > best_error) {
        best_error = error;
        best = dataset;
      }
    }
    if (out != nullptr) {
      out->ids[step] = static_cast<Id>(best);
      out->samples[step] = counts[best];
    }
    ++counts[best];
  }
}

}  // namespace

template <typename Id>
void blend_plainly(std::span<const double> weights, std::span<const std::int64_t> limits,
                   BlendOutput<Id> out, Threads threads) {
  blend_on_threads(
      weights, out.ids.size(), out.counts, threads,
      [&](std::size_t first, std::size_t end, std::span<std::int64_t> counts, bool write) noexcept {
        take_steps(weights, limits, first, end, counts, write ? &out : nullptr);
      });
}

template void blend_plainly(std::span<const double>, std::span<const std::int64_t>,
                            BlendOutput<std::int16_t>, Threads);
template void blend_plainly(std::span<const double>, std::span<const std::int64_t>,
                            BlendOutput<std::int32_t>, Threads);

}  // namespace zephon
