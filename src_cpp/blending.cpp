#include "zephon/blending.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

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

template <typename Id>
void blend_exhaustively(std::span<const std::int64_t> sizes, std::span<Id> ids,
                        std::span<std::int64_t> samples, std::span<std::int64_t> counts) {
  std::vector<double> weights(sizes.size());
  std::vector<std::size_t> left(sizes.size());
  const double total = static_cast<double>(ids.size());
  for (std::size_t dataset = 0; dataset < sizes.size(); ++dataset) {
    weights[dataset] = static_cast<double>(sizes[dataset]) / total;
    left[dataset] = dataset;
  }
  for (std::size_t step = 0; step < ids.size(); ++step) {
    const double position = std::max(static_cast<double>(step), 1.0);
    std::size_t best = 0;
    double best_error = -std::numeric_limits<double>::infinity();
    for (std::size_t slot = 0; slot < left.size(); ++slot) {
      const std::size_t dataset = left[slot];
      const double error = weights[dataset] * position - static_cast<double>(counts[dataset]);
      if (error > best_error) {
        best_error = error;
        best = slot;
      }
    }
    const std::size_t dataset = left[best];
    ids[step] = static_cast<Id>(dataset);
    samples[step] = counts[dataset]++;
    if (counts[dataset] == sizes[dataset]) {
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(best));
    }
  }
}

template void blend_weighted(std::span<const double>, std::span<std::int16_t>,
                             std::span<std::int64_t>, std::span<std::int64_t>) noexcept;
template void blend_weighted(std::span<const double>, std::span<std::int32_t>,
                             std::span<std::int64_t>, std::span<std::int64_t>) noexcept;
template void blend_exhaustively(std::span<const std::int64_t>, std::span<std::int16_t>,
                                 std::span<std::int64_t>, std::span<std::int64_t>);
template void blend_exhaustively(std::span<const std::int64_t>, std::span<std::int32_t>,
                                 std::span<std::int64_t>, std::span<std::int64_t>);

}  // namespace zephon
