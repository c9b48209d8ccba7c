// Counts and sequences of chunks, without Python around them.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "zephon/mixture.hpp"

namespace {

int failures = 0;

#define CHECK(condition)                                                 \
  do {                                                                   \
    if (!(condition)) {                                                  \
      std::printf("%s:%d: CHECK(%s)\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                        \
    }                                                                    \
  } while (false)

using Longs = std::vector<std::int64_t>;

struct Chunk {
  Longs given, taken, first;
  std::vector<std::uint16_t> sequence;
  bool held;
};

Chunk make(const Longs& weights, std::int64_t total, std::int64_t lane, std::int64_t lanes,
           std::int64_t t0, std::int64_t t1) {
  const std::size_t k = weights.size();
  Chunk chunk{Longs(k), Longs(k), Longs(k), {}, false};
  zephon::chunk_counts(weights, total, lane, lanes, t0, t1, chunk.given, chunk.taken, chunk.first);
  chunk.sequence.resize(static_cast<std::size_t>(t1 - t0));
  std::vector<std::uint64_t> scratch(zephon::chunk_sequence_scratch(k, chunk.sequence.size()));
  chunk.held =
      zephon::chunk_sequence(weights, total, t0, chunk.given, chunk.taken, scratch, chunk.sequence);
  return chunk;
}

// Every ordinal once over lanes and rounds, and no draw two documents off.
void lanes_share_the_ordinals_and_keep_their_shares() {
  const Longs weights{7, 1, 90, 33, 2, 2};
  const std::int64_t total = 135;
  const std::int64_t lanes = 6;
  const std::int64_t length = 150;
  Longs next(weights.size(), 0);
  for (std::int64_t round = 0; round < 20; ++round) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const std::int64_t t0 = round * length;
      const Chunk chunk = make(weights, total, lane, lanes, t0, t0 + length);
      CHECK(chunk.first == next);
      Longs counted = chunk.given;
      std::int64_t t = t0;
      for (const std::uint16_t source : chunk.sequence) {
        ++counted[source];
        ++t;
        for (std::size_t i = 0; i < weights.size(); ++i) {
          const std::int64_t off = std::llabs(counted[i] * total - weights[i] * t);
          CHECK(off < (chunk.held ? 1 : 2) * total);
        }
      }
      Longs ordinals(chunk.sequence.size());
      Longs numbered = chunk.first;
      CHECK(zephon::greatest_source(chunk.sequence) < static_cast<int>(numbered.size()));
      CHECK(zephon::greatest_source({}) == -1);
      zephon::number_draws(chunk.sequence, numbered, ordinals);
      zephon::skip_draws(chunk.sequence, next);
      CHECK(numbered == next);
    }
  }
}

void a_chunk_that_cannot_be_in_time_follows_its_own_rates() {
  const Chunk chunk = make({12, 11, 5, 11}, 39, 2, 3, 24, 32);
  CHECK(!chunk.held);
  CHECK((chunk.sequence == std::vector<std::uint16_t>{1, 3, 0, 1, 3, 0, 1, 3}));
}

void the_limits_do_not_overflow() {
  const Longs weights{(1LL << 47), (1LL << 47) - (1LL << 30), 1LL << 30};
  const std::int64_t t1 = 1LL << 46;
  const Chunk chunk = make(weights, 1LL << 48, 65535, 65536, t1 - (1LL << 18), t1);
  CHECK(chunk.given[0] == t1 / 2 - (1LL << 17));
  CHECK(chunk.taken[0] == 1LL << 17);
  CHECK(chunk.taken[2] == 1);
}

void scaling_is_exact_or_refused() {
  Longs quotient(1);
  Longs remainder(1);
  CHECK(zephon::scale(Longs{(1LL << 62) - 1}, (1LL << 62) - 1, Longs{1LL << 62}, quotient,
                      remainder));
  CHECK(quotient[0] == (1LL << 62) - 2);
  CHECK(remainder[0] == 1);
  CHECK(!zephon::scale(Longs{1LL << 40}, 1LL << 23, Longs{1}, quotient, remainder));
}

}  // namespace

int main() {
  lanes_share_the_ordinals_and_keep_their_shares();
  a_chunk_that_cannot_be_in_time_follows_its_own_rates();
  the_limits_do_not_overflow();
  scaling_is_exact_or_refused();
  return failures == 0 ? 0 : 1;
}
