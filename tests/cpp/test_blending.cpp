#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

#include "zephon/blend_chains.hpp"
#include "zephon/blend_routes.hpp"
#include "zephon/blending.hpp"

namespace {

int failures = 0;

void check(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  ++failures;
}

struct Random {  // a small linear congruential generator: the same run everywhere
  std::uint64_t state;
  double fraction() {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<double>(state >> 11) * 0x1p-53;
  }
  std::size_t below(std::size_t bound) {
    return static_cast<std::size_t>(fraction() * static_cast<double>(bound));
  }
};

struct Blend {
  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> samples;
  std::vector<std::int64_t> counts;

  Blend(std::size_t datasets, std::size_t steps) : ids(steps), samples(steps), counts(datasets) {}
  zephon::BlendOutput<std::int32_t> out() { return {ids, samples, counts}; }
  bool operator==(const Blend&) const = default;
};

Blend blend(const std::vector<double>& weights, std::size_t size) {
  Blend result(weights.size(), size);
  zephon::blend_weighted<std::int32_t>(weights, result.ids, result.samples, result.counts);
  return result;
}

void test_first_steps() {
  const Blend result = blend({0.25, 0.75}, 8);
  check(result.ids == std::vector<std::int32_t>{1, 0, 1, 1, 0, 1, 1, 1}, "datasets");
  check(result.samples == std::vector<std::int64_t>{0, 0, 1, 2, 1, 3, 4, 5}, "samples");
  check(result.counts == std::vector<std::int64_t>{2, 6}, "counts");
}

void test_ties_go_to_the_lowest_index() {
  check(blend({0.25, 0.25, 0.25, 0.25}, 6).ids == std::vector<std::int32_t>{0, 1, 2, 3, 0, 1},
        "equal weights take turns");
  check(blend({0.0, 0.0}, 3).ids == std::vector<std::int32_t>{0, 1, 0}, "so do zero weights");
}

// Weights of many shapes: distinct, repeated, zero, of very different sizes, and
// with sums other than 1.
std::vector<double> random_weights(Random& random, std::size_t datasets) {
  std::vector<double> weights(datasets);
  const std::size_t shape = random.below(6);
  for (std::size_t at = 0; at < datasets; ++at) {
    double& weight = weights[at];
    if (shape == 0) weight = random.fraction();
    if (shape == 1) weight = std::exp(4.0 * random.fraction());
    if (shape == 2) weight = 1.0 / static_cast<double>(at + 1);
    if (shape == 3) weight = static_cast<double>(random.below(4));
    if (shape == 4) weight = std::pow(10.0, -12.0 * random.fraction());
    if (shape == 5) weight = 1.0;
  }
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (total == 0.0) return weights;
  const double sums[] = {1.0, 1.0, 1.0, 0.6, 1.7, 1.0 + 1e-9};
  total /= sums[random.below(6)];
  for (double& weight : weights) weight /= total;
  return weights;
}

void test_every_route_takes_the_same_steps() {
  Random random{3};
  for (int round = 0; round < 400; ++round) {
    const std::size_t datasets = 1 + random.below(round % 4 == 0 ? 700 : 70);
    const std::size_t steps = random.below(round % 10 == 0 ? 30000 : 4000);
    const std::vector<double> weights = random_weights(random, datasets);
    Blend plain(datasets, steps);
    zephon::blend_plainly(weights, {}, plain.out());
    check(std::accumulate(plain.counts.begin(), plain.counts.end(), std::int64_t{0}) ==
              static_cast<std::int64_t>(steps),
          "every step is counted");

    Blend grouped(datasets, steps);
    zephon::GroupedBlend(weights, {}, steps).run(grouped.out());
    check(grouped == plain, "in groups");

    Blend stretches(datasets, steps);
    if (zephon::blend_in_stretches(weights, stretches.out())) {
      check(stretches == plain, "in stretches");
    } else {
      check(stretches == Blend(datasets, steps), "nothing is done");
    }
    check(blend(weights, steps) == plain, "by the chosen route");
  }
}

void test_exhaustive_routes_take_the_same_steps() {
  Random random{5};
  for (int round = 0; round < 300; ++round) {
    const std::size_t datasets = 1 + random.below(round % 4 == 0 ? 400 : 40);
    const std::size_t largest = 1 + random.below(round % 3 == 0 ? 4 : 60);
    std::vector<std::int64_t> sizes(datasets);
    for (auto& size : sizes) size = static_cast<std::int64_t>(1 + random.below(largest));
    const std::size_t steps =
        static_cast<std::size_t>(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
    std::vector<double> weights(datasets);
    for (std::size_t at = 0; at < datasets; ++at) {
      weights[at] = static_cast<double>(sizes[at]) / static_cast<double>(steps);
    }
    Blend plain(datasets, steps);
    zephon::blend_plainly<std::int32_t>(weights, sizes, plain.out());
    check(plain.counts == sizes, "every sample is drawn");

    Blend grouped(datasets, steps);
    zephon::GroupedBlend(weights, sizes, steps).run(grouped.out());
    check(grouped == plain, "in groups");

    Blend chosen(datasets, steps);
    zephon::blend_exhaustively<std::int32_t>(sizes, chosen.ids, chosen.samples, chosen.counts);
    check(chosen == plain, "by the chosen route");
  }
}

void test_threads_take_the_same_steps() {
  Random random{11};
  for (int round = 0; round < 200; ++round) {
    const std::size_t datasets = 1 + random.below(round % 4 == 0 ? 70 : 20);
    const std::size_t steps = random.below(round % 10 == 0 ? 60000 : 6000);
    const std::vector<double> weights = random_weights(random, datasets);
    const std::size_t counts[] = {2, 3, 8, 64};
    const std::size_t least[] = {1, 30, 1000, 5000};
    const zephon::Threads threads{counts[random.below(4)], least[random.below(4)]};
    Blend plain(datasets, steps);
    zephon::blend_plainly(weights, {}, plain.out());

    Blend chains(datasets, steps);
    zephon::blend_plainly(weights, {}, chains.out(), threads);
    check(chains == plain, "plain chains");

    Blend stretches(datasets, steps);
    if (zephon::blend_in_stretches(weights, stretches.out(), threads)) {
      check(stretches == plain, "chains of stretches");
    }

    const std::vector<double> equal(datasets, weights[0]);
    Blend expected(datasets, steps);
    zephon::blend_plainly(equal, {}, expected.out());
    Blend turns(datasets, steps);
    zephon::blend_weighted<std::int32_t>(equal, turns.ids, turns.samples, turns.counts, threads);
    check(turns == expected, "equal weights");

    std::vector<std::int64_t> sizes(datasets);
    for (auto& size : sizes) size = static_cast<std::int64_t>(1 + random.below(200));
    const auto total =
        static_cast<std::size_t>(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
    Blend once(datasets, total);
    zephon::blend_exhaustively<std::int32_t>(sizes, once.ids, once.samples, once.counts);
    Blend shared(datasets, total);
    zephon::blend_exhaustively<std::int32_t>(sizes, shared.ids, shared.samples, shared.counts,
                                             threads);
    check(shared == once, "exhaustive chains");
  }
}

// A rule that no guess from the weights fits: every step draws dataset 0.
void test_chains_that_began_wrongly_are_run_again() {
  constexpr std::size_t steps = 20000;
  std::vector<std::int64_t> samples(steps, -1);
  std::vector<std::int64_t> counts(2);
  zephon::blend_on_threads(
      std::vector<double>{0.5, 0.5}, steps, counts, zephon::Threads{3, 1},
      [&](std::size_t first, std::size_t end, std::span<std::int64_t> from, bool write) {
        for (; first < end; ++first, ++from[0]) {
          if (write) samples[first] = from[0];
        }
      });
  std::vector<std::int64_t> expected(steps);
  std::iota(expected.begin(), expected.end(), 0);
  check(samples == expected, "the samples of the definition");
  check(counts == std::vector<std::int64_t>{steps, 0}, "and its counts");
}

// Otherwise threads would gain nothing.
void test_guesses_of_usual_weights_are_right() {
  constexpr std::size_t steps = 100000;
  const std::vector<double> weights{0.5, 0.25, 0.15, 0.07, 0.03};
  std::vector<std::int64_t> counts(5);
  std::atomic<std::size_t> written{0};
  zephon::blend_on_threads(
      weights, steps, counts, zephon::Threads{2, 1},
      [&](std::size_t first, std::size_t end, std::span<std::int64_t> from, bool write) {
        for (std::size_t step = first; step < end; ++step) {
          std::size_t best = 0;
          double best_error = -1e9;
          for (std::size_t at = 0; at < 5; ++at) {
            const double error = weights[at] * std::max(static_cast<double>(step), 1.0) -
                                 static_cast<double>(from[at]);
            if (error > best_error) best = at;
            best_error = std::max(best_error, error);
          }
          ++from[best];
        }
        if (write) written += end - first;
      });
  check(written == steps, "no step is taken twice");
}

void test_weights_beyond_exact_counting_are_not_grouped() {
  const std::vector<double> weights{1e16, 1e16, 3.0, 1e300};
  Blend plain(4, 5000);
  zephon::blend_plainly(weights, {}, plain.out());
  Blend grouped(4, 5000);
  zephon::GroupedBlend route(weights, {}, 5000);
  check(route.groups() == 4, "each weight for itself");
  route.run(grouped.out());
  check(grouped == plain && blend(weights, 5000) == plain, "the same steps");
  check(zephon::GroupedBlend(std::vector<double>(64, 0.1), {}, 5000).groups() == 1, "merged");
}

void test_widths_agree() {
  const std::vector<double> weights{0.7, 0.2, 0.1};
  std::vector<std::int16_t> ids(5000);
  std::vector<std::int64_t> samples(5000);
  std::vector<std::int64_t> counts(3);
  zephon::blend_weighted<std::int16_t>(weights, ids, samples, counts);
  const Blend wide = blend(weights, 5000);
  check(std::vector<std::int32_t>(ids.begin(), ids.end()) == wide.ids, "datasets");
  check(samples == wide.samples && counts == wide.counts, "samples and counts");
}

}  // namespace

int main() {
  test_first_steps();
  test_ties_go_to_the_lowest_index();
  test_every_route_takes_the_same_steps();
  test_exhaustive_routes_take_the_same_steps();
  test_threads_take_the_same_steps();
  test_chains_that_began_wrongly_are_run_again();
  test_guesses_of_usual_weights_are_right();
  test_weights_beyond_exact_counting_are_not_grouped();
  test_widths_agree();
  return failures == 0 ? 0 : 1;
}
