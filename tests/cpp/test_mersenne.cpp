#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#include "zephon/mersenne.hpp"

namespace {

int failures = 0;

void check(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  ++failures;
}

struct State {
  std::array<std::uint32_t, zephon::MersenneView::words> key{};
  std::uint32_t used = 0;

  zephon::MersenneView view() { return {key, used}; }
};

void test_numbers_are_those_of_the_standard_library() {
  for (const std::uint32_t seed : {0U, 1U, 1234U, 0xffffffffU}) {
    State state;
    state.view().seed(seed);
    std::mt19937 expected(seed);
    bool same = true;
    for (int n = 0; n < 2000; ++n) same &= state.view().next() == expected();
    check(same, "the same sequence");
  }
}

void test_numbers_are_within_their_bound() {
  State state;
  state.view().seed(5);
  check(state.view().below_or_at(0) == 0, "nothing to choose from");
  for (const std::uint64_t most : {1ULL, 5ULL, 0xffffffffULL, 0x100000000ULL, ~0ULL}) {
    bool within = true;
    for (int n = 0; n < 100; ++n) within &= state.view().below_or_at(most) <= most;
    check(within, "within the bound");
  }
}

void test_shuffle_permutes() {
  State state;
  state.view().seed(9);
  for (std::size_t size = 0; size < 300; ++size) {
    std::vector<std::uint32_t> narrow(size);
    std::iota(narrow.begin(), narrow.end(), 0U);
    std::vector<std::uint64_t> wide(narrow.begin(), narrow.end());
    State other = state;
    zephon::shuffle_like_numpy<std::uint32_t>(narrow, state.view());
    zephon::shuffle_like_numpy<std::uint64_t>(wide, other.view());
    check(std::equal(narrow.begin(), narrow.end(), wide.begin(), wide.end()), "widths agree");
    check(state.key == other.key && state.used == other.used, "both leave the same state");
    std::sort(narrow.begin(), narrow.end());
    bool whole = true;
    for (std::size_t at = 0; at < size; ++at) whole &= narrow[at] == at;
    check(whole, "every value is kept");
  }
}

}  // namespace

int main() {
  test_numbers_are_those_of_the_standard_library();
  test_numbers_are_within_their_bound();
  test_shuffle_permutes();
  return failures == 0 ? 0 : 1;
}
