#include <cstdint>
#include <cstdio>
#include <limits>
#include <vector>

#include "zephon/sample_index.hpp"

namespace {

int failures = 0;

void check(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  ++failures;
}

struct Random {  // a small linear congruential generator: the same run everywhere
  std::uint64_t state;
  std::int64_t below(std::int64_t bound) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(bound));
  }
};

// The definition, one token count at a time.
std::vector<std::int64_t> expected_rows(const std::vector<std::int32_t>& sizes,
                                        const std::vector<std::int32_t>& documents,
                                        zephon::SampleIndexShape shape) {
  std::vector<std::int64_t> rows{0, 0};
  for (std::int64_t sample = 1; sample <= shape.samples; ++sample) {
    const std::int64_t token = sample * shape.sequence_length;
    std::int64_t before = 0;
    std::int64_t last_filled = 0;
    bool found = false;
    for (std::size_t position = 0; position < documents.size() && !found; ++position) {
      const std::int64_t size = sizes[static_cast<std::size_t>(documents[position])];
      if (size > 0 || shape.extra == 0) last_filled = static_cast<std::int64_t>(position);
      if (before + size >= token + shape.extra) {
        rows.push_back(static_cast<std::int64_t>(position));
        rows.push_back(token - before);
        found = true;
      }
      before += size;
    }
    if (!found) {
      const std::size_t document =
          static_cast<std::size_t>(documents[static_cast<std::size_t>(last_filled)]);
      rows.push_back(last_filled);
      rows.push_back(sizes[document] - shape.extra);
    }
  }
  return rows;
}

void test_rows_match_the_definition() {
  Random random{7};
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::int32_t> sizes(static_cast<std::size_t>(1 + random.below(20)));
    for (auto& size : sizes) {
      size = static_cast<std::int32_t>(random.below(3) == 0 ? 0 : random.below(50));
    }
    std::vector<std::int32_t> documents(static_cast<std::size_t>(1 + random.below(200)));
    for (auto& document : documents) {
      document = static_cast<std::int32_t>(random.below(static_cast<std::int64_t>(sizes.size())));
    }
    const std::int64_t held = zephon::count_tokens(sizes, documents);
    if (held < 2) continue;
    zephon::SampleIndexShape shape{};
    shape.sequence_length = 2 + random.below(70);
    shape.extra = random.below(2);
    shape.samples =
        zephon::count_samples(held, shape.sequence_length, shape.extra, random.below(2) == 0);
    const auto values = static_cast<std::size_t>(2 * (shape.samples + 1));
    std::vector<std::int32_t> narrow(values, -7);
    std::vector<std::int64_t> wide(values, -7);
    const std::int64_t tokens =
        zephon::build_sample_index<std::int32_t>(sizes, documents, shape, narrow);
    zephon::build_sample_index<std::int64_t>(sizes, documents, shape, wide);
    check(tokens == held, "tokens are counted");
    const std::size_t counts[] = {2, 3, 8, 64};
    const zephon::Threads threads{counts[random.below(4)],
                                  static_cast<std::size_t>(1 + random.below(20))};
    if (round % 4 == 0) {
      std::vector<std::int64_t> shared(values, -7);
      check(zephon::build_sample_index<std::int64_t>(sizes, documents, shape, shared, threads) ==
                held,
            "threads count the same tokens");
      check(shared == wide, "threads find the same rows");
    }
    check(wide == expected_rows(sizes, documents, shape), "rows are those of the definition");
    check(std::vector<std::int64_t>(narrow.begin(), narrow.end()) == wide, "widths agree");
  }
}

void test_counts_are_exact() {
  using zephon::count_samples;
  check(count_samples(20000001, 1000, 0, false) == 20001, "ceiling past 2^24");
  check(count_samples(20098191, 99991, 0, false) == 201, "exact multiple past 2^24");
  check(count_samples(3'000'000'001, 3, 0, false) == 1'000'000'001, "ceiling past 2^31");
  check(count_samples(11, 64, 1, true) == 0, "too few tokens for a sample");
  check(count_samples(11, 64, 1, false) == 1, "a partial sample");
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  check(count_samples(most, 2, 0, false) == most / 2 + 1, "the greatest count");
}

void test_what_cannot_be_counted_is_refused() {
  const zephon::SampleIndexShape shape{64, 1, 50};
  std::vector<std::int32_t> rows(2 * 51);
  constexpr std::size_t places[] = {0, 1, 63, 64, 1023, 1024, 1087, 1088, 2999};
  constexpr std::size_t counts[] = {1, 3};
  for (const std::size_t place : places) {
    for (const std::int32_t id : {-1, 4, 2147483647, -2147483647 - 1, 3}) {
      std::vector<std::int32_t> sizes{3, 0, 7, -1};
      std::vector<std::int32_t> documents(3000);
      for (std::size_t at = 0; at < 3000; ++at) documents[at] = static_cast<std::int32_t>(at % 3);
      check(zephon::count_tokens(sizes, documents) == 10'000, "sizes that no document has");
      documents[place] = id;  // none of a size, or of the negative one
      check(zephon::count_tokens(sizes, documents) == zephon::not_countable, "counted");
      for (const std::size_t threads : counts) {
        check(zephon::build_sample_index<std::int32_t>(sizes, documents, shape, rows,
                                                       {threads, 500}) == zephon::not_countable,
              "placed");
      }
    }
  }
  check(zephon::count_tokens({}, {}) == 0, "nothing");
}

}  // namespace

int main() {
  test_rows_match_the_definition();
  test_counts_are_exact();
  test_what_cannot_be_counted_is_refused();
  return failures == 0 ? 0 : 1;
}
