#include "zephon/blending.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "zephon/blend_routes.hpp"

namespace zephon {
namespace {

// Below so many groups, or steps, looking at every dataset costs less than
// finding out which need not be looked at.
constexpr std::size_t few_groups = 24;
constexpr std::size_t few_steps = 256;

}  // namespace

template <typename Id>
void blend_weighted(std::span<const double> weights, std::span<Id> ids,
                    std::span<std::int64_t> samples, std::span<std::int64_t> counts,
                    Threads threads) {
  const BlendOutput<Id> out{ids, samples, counts};
  if (ids.size() < few_steps) return blend_plainly(weights, {}, out);
  const auto first = weights.begin();
  const bool all_equal = std::all_of(first, weights.end(), [&](double w) { return w == *first; });
  if (!all_equal && blend_in_stretches(weights, out, threads)) return;
  if (!all_equal && weights.size() < few_groups) return blend_plainly(weights, {}, out, threads);
  GroupedBlend(weights, {}, ids.size()).run(out, threads);
}

template <typename Id>
void blend_exhaustively(std::span<const std::int64_t> sizes, std::span<Id> ids,
                        std::span<std::int64_t> samples, std::span<std::int64_t> counts,
                        Threads threads) {
  const BlendOutput<Id> out{ids, samples, counts};
  const double total = static_cast<double>(ids.size());
  std::vector<double> weights(sizes.size());
  for (std::size_t dataset = 0; dataset < sizes.size(); ++dataset) {
    weights[dataset] = static_cast<double>(sizes[dataset]) / total;
  }
  if (ids.size() < few_steps) return blend_plainly<Id>(weights, sizes, out);
  GroupedBlend grouped(weights, sizes, ids.size());
  if (grouped.groups() > 1 && sizes.size() < few_groups) {
    return blend_plainly<Id>(weights, sizes, out, threads);
  }
  grouped.run(out, threads);
}

template void blend_weighted(std::span<const double>, std::span<std::int16_t>,
                             std::span<std::int64_t>, std::span<std::int64_t>, Threads);
template void blend_weighted(std::span<const double>, std::span<std::int32_t>,
                             std::span<std::int64_t>, std::span<std::int64_t>, Threads);
template void blend_exhaustively(std::span<const std::int64_t>, std::span<std::int16_t>,
                                 std::span<std::int64_t>, std::span<std::int64_t>, Threads);
template void blend_exhaustively(std::span<const std::int64_t>, std::span<std::int32_t>,
                                 std::span<std::int64_t>, std::span<std::int64_t>, Threads);

}  // namespace zephon
