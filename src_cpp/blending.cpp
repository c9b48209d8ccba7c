#include "zephon/blending.hpp"

#include <algorithm>
#include <cstddef>

namespace zephon {

template <typename Id>
void blend_weighted(std::span<const double> weights, std::span<Id> ids,
                    std::span<std::int64_t> samples, std::span<std::int64_t> counts) noexcept {
  for (std::size_t step = 0; step < ids.size(); ++step) {
    const double position = std::max(static_cast<double>(step), 1.0);
    std::size_t best = 0;
    double best_error = weights[0] * position - static_cast<double>(counts[0]);
    for (std::size_t dataset = 1; dataset < weights.size(); ++dataset) {
      const double error = weights[dataset] * position - static_cast<double>(counts[dataset]);
      if (error > best_error) {
        best_error = error;
        best = dataset;
      }
    }
    ids[step] = static_cast<Id>(best);
    samples[step] = counts[best]++;
  }
}

template void blend_weighted(std::span<const double>, std::span<std::int16_t>,
                             std::span<std::int64_t>, std::span<std::int64_t>) noexcept;
template void blend_weighted(std::span<const double>, std::span<std::int32_t>,
                             std::span<std::int64_t>, std::span<std::int64_t>) noexcept;

}  // namespace zephon
