// The permutation and the order of sources, without Python around them.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

#include "zephon/permutation.hpp"

namespace {

int failures = 0;

#define CHECK(condition)                                                 \
  do {                                                                   \
    if (!(condition)) {                                                  \
      std::printf("%s:%d: CHECK(%s)\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                        \
    }                                                                    \
  } while (false)

void every_value_comes_once_and_leads_back() {
  for (const std::int64_t n : {1, 2, 3, 255, 256, 257, 1000, 4097, 65536}) {
    const zephon::Permutation permutation(static_cast<std::uint64_t>(n), 7);
    std::vector<std::int64_t> in(static_cast<std::size_t>(n));
    std::iota(in.begin(), in.end(), 0);
    std::vector<std::int64_t> out(in.size());
    permutation.forward(in, out);
    std::vector<std::int64_t> back(in.size());
    permutation.inverse(out, back);
    CHECK(back == in);
    for (std::size_t k = 0; k < in.size(); k += 97) {
      const std::uint64_t value = permutation.forward(k);
      CHECK(static_cast<std::int64_t>(value) == out[k]);
      CHECK(permutation.inverse(value) == k);
    }
    std::sort(out.begin(), out.end());
    CHECK(out == in);
  }
}

void the_largest_domain_leads_back() {
  for (const std::uint64_t n : {(1ULL << 40) - 1, 1ULL << 40, (1ULL << 40) + 1, 1ULL << 62}) {
    const zephon::Permutation permutation(n, ~0ULL);
    for (std::uint64_t k = 0; k < 1000; ++k) {
      const std::uint64_t x = (n - 1) / 999 * k;
      const std::uint64_t value = permutation.forward(x);
      CHECK(value < n);
      CHECK(permutation.inverse(value) == x);
    }
    CHECK(permutation.inverse(permutation.forward(n - 1)) == n - 1);
  }
}

void golden_values_stay() {
  CHECK(zephon::Permutation(257, 1).forward(0) == 156);
  CHECK(zephon::Permutation(1000, 1).forward(875) == 672);
  CHECK(zephon::Permutation(1ULL << 40, 1).forward(0) == 286141866706ULL);
  CHECK(zephon::Permutation(1ULL << 62, 1).forward(0) == 1727338695444105660ULL);
}

void outside_is_found() {
  const std::vector<std::int64_t> values{0, 4, 5, -1};
  CHECK(zephon::find_outside(values, 5) == 2);
  CHECK(zephon::find_outside(values, 6) == 3);
  CHECK(zephon::find_outside({}, 5) == 0);
}

void two_sources_are_gone_through_in_every_pass() {
  // Three units of 4, 0 and 300 documents, all shuffled; one of 5 in file order.
  const std::vector<std::int64_t> units{3, 1};
  const std::vector<std::int64_t> begin{0, 4};
  const std::vector<std::int64_t> first_row{0, 4, 4, 304, 0, 5};
  const std::vector<std::uint8_t> mode{
      zephon::kShuffleUnits | zephon::kShuffleRows | zephon::kReshuffle, 0};
  const std::vector<std::uint64_t> keys{11, 12};
  std::vector<std::int64_t> prefix(12, -7);
  std::vector<std::int64_t> held(4, -1);
  const zephon::SourceOrder order{units, begin, first_row, mode, keys, keys, prefix, held};

  const std::size_t per_source = 1520;  // 5 passes of 304, 304 of 5
  std::vector<std::int64_t> visit(2 * per_source);
  std::iota(visit.begin(), visit.end(), 0);
  std::vector<std::int32_t> sources(visit.size());
  std::vector<std::int64_t> ordinals(visit.size());
  for (std::size_t k = 0; k < visit.size(); ++k) {
    sources[k] = static_cast<std::int32_t>(k % 2);
    ordinals[k] = static_cast<std::int64_t>(k / 2);
  }
  std::vector<std::int64_t> rows(visit.size());
  std::vector<std::int64_t> passes(visit.size());
  zephon::locate(order, visit, sources, ordinals, rows, passes);

  std::vector<int> seen(5 * 304, 0);
  for (std::size_t k = 0; k < visit.size(); ++k) {
    const std::int64_t documents = k % 2 == 0 ? 304 : 5;
    CHECK(passes[k] == ordinals[k] / documents);
    CHECK(rows[k] >= 0 && rows[k] < documents);
    if (k % 2 == 1) CHECK(rows[k] == ordinals[k] % 5);
    if (k % 2 == 0) ++seen[static_cast<std::size_t>(passes[k] * 304 + rows[k])];
  }
  CHECK(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));

  // The order of visiting changes nothing.
  std::reverse(visit.begin(), visit.end());
  std::vector<std::int64_t> again(visit.size());
  zephon::locate(order, visit, sources, ordinals, again, passes);
  CHECK(again == rows);
}

}  // namespace

int main() {
  every_value_comes_once_and_leads_back();
  the_largest_domain_leads_back();
  golden_values_stay();
  outside_is_found();
  two_sources_are_gone_through_in_every_pass();
  return failures == 0 ? 0 : 1;
}
