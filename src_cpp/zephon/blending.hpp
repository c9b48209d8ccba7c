// Which dataset each sample of a blend comes from.
#pragma once

#include <cstdint>
#include <span>

#include "zephon/threads.hpp"

namespace zephon {

// Greedy blend. Step s draws the dataset whose weight * max(s, 1) - count is
// greatest in double arithmetic (product rounded, then difference rounded; the
// lowest index wins a tie), writes its index to `ids[s]` and its count to
// `samples[s]`, and counts it. Weights are used as given, not normalised.
//
// ids and samples have one entry per step; counts one per weight, zero on entry
// and the number of draws on return. weights is not empty, finite, >= 0, and its
// last index fits Id. The steps are the same whichever route of blend_routes.hpp
// computes them, and however many threads. More than one are of use for few datasets
// (up to 64 where the processor has AVX-512, else up to 23) and for equal weights;
// an exhaustive blend has them for up to 23, and for equal sizes. Allocates
// some numbers per dataset and thread before the first step, and can throw
// std::bad_alloc only then.
template <typename Id>
void blend_weighted(std::span<const double> weights, std::span<Id> ids,
                    std::span<std::int64_t> samples, std::span<std::int64_t> counts,
                    Threads threads = {});

// The same rule with weight = size / total, among the datasets that have a
// sample left: each is drawn exactly `size` times. ids and samples have `total`
// entries, the sum of the sizes, each of which is > 0.
template <typename Id>
void blend_exhaustively(std::span<const std::int64_t> sizes, std::span<Id> ids,
                        std::span<std::int64_t> samples, std::span<std::int64_t> counts,
                        Threads threads = {});

extern template void blend_weighted(std::span<const double>, std::span<std::int16_t>,
                                    std::span<std::int64_t>, std::span<std::int64_t>, Threads);
extern template void blend_weighted(std::span<const double>, std::span<std::int32_t>,
                                    std::span<std::int64_t>, std::span<std::int64_t>, Threads);
extern template void blend_exhaustively(std::span<const std::int64_t>, std::span<std::int16_t>,
                                        std::span<std::int64_t>, std::span<std::int64_t>, Threads);
extern template void blend_exhaustively(std::span<const std::int64_t>, std::span<std::int32_t>,
                                        std::span<std::int64_t>, std::span<std::int64_t>, Threads);

}  // namespace zephon
