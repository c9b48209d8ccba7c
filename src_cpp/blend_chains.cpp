#include "zephon/blend_chains.hpp"

#include <cmath>
#include <limits>

namespace zephon {

bool guess_counts(std::span<const double> weights, std::size_t step,
                  std::span<std::int64_t> counts) noexcept {
  const double position = static_cast<double>(step);
  const auto most = static_cast<std::int64_t>(weights.size());
  auto missing = static_cast<std::int64_t>(step);
  for (std::size_t at = 0; at < weights.size(); ++at) {
    const double share = std::floor(weights[at] * position);
    if (!(share <= position)) return false;
    counts[at] = static_cast<std::int64_t>(share);
    missing -= counts[at];
  }
  if (missing < 0 || missing > most) return false;
  for (; missing > 0; --missing) {
    std::size_t best = 0;
    double best_error = -std::numeric_limits<double>::infinity();
    for (std::size_t at = 0; at < weights.size(); ++at) {
      const double error = weights[at] * position - static_cast<double>(counts[at]);
      if (error > best_error) {
        best_error = error;
        best = at;
      }
    }
    ++counts[best];
  }
  return true;
}

}  // namespace zephon
