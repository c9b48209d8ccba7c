#include <cstdint>
#include <cstdio>
#include <vector>

#include "zephon/blending.hpp"

namespace {

int failures = 0;

void check(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  ++failures;
}

struct Blend {
  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> samples;
  std::vector<std::int64_t> counts;
};

Blend blend(const std::vector<double>& weights, std::size_t size) {
  Blend result{std::vector<std::int32_t>(size), std::vector<std::int64_t>(size),
               std::vector<std::int64_t>(weights.size())};
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
  test_widths_agree();
  return failures == 0 ? 0 : 1;
}
