#include <algorithm>
#include <limits>

#include "zephon/blend_routes.hpp"

namespace zephon {

template <typename Id>
void blend_plainly(std::span<const double> weights, std::span<const std::int64_t> limits,
                   BlendOutput<Id> out) noexcept {
  const std::span<std::int64_t> counts = out.counts;
  for (std::size_t step = 0; step < out.ids.size(); ++step) {
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
    out.ids[step] = static_cast<Id>(best);
    out.samples[step] = counts[best]++;
  }
}

template void blend_plainly(std::span<const double>, std::span<const std::int64_t>,
                            BlendOutput<std::int16_t>) noexcept;
template void blend_plainly(std::span<const double>, std::span<const std::int64_t>,
                            BlendOutput<std::int32_t>) noexcept;

}  // namespace zephon
