// Which source each draw of a lane takes, in exact integers.
//
// A *piece* is a stretch of the run with constant integer weights p[0..K) that
// sum to P. Lane l of R has given, after t draws of the piece,
//     b_j(t, l) = floor(c_j * t / P + (2l + 1) / (2R)),   c_j = p_0 + ... + p_{j-1}
// documents of the sources before j, hence b_{i+1} - b_i of source i: less than
// one away from p_i * t / P. The phases (2l+1)/(2R) add up over the lanes to
// cumulative rounding of the whole (Hermite), so all R lanes together are also
// less than one away from theirs. A lane's draws are cut into *chunks*; the
// counts at the ends of a chunk are these, and in between an earliest-due-first
// schedule takes them in turn.
//
// Limits everywhere: K <= 2^16, P <= 2^48, t <= 2^48, R <= 2^16, t * R <= 2^62.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace zephon {

// Chunk [t0, t1) of one lane: for every source how many documents the lane has
// given before it (`given`), how many the chunk takes (`taken`, they sum to
// t1 - t0 if every p_i * (t1 - t0) >= P or t0 == 0), and the ordinal of its
// first one within the piece (`first`), when all lanes take the chunks of one
// round [t0, t1) in the order of their numbers.
// O(K), two 128-bit divisions per source.
void chunk_counts(std::span<const std::int64_t> weights, std::int64_t total, std::int64_t lane,
                  std::int64_t lanes, std::int64_t t0, std::int64_t t1,
                  std::span<std::int64_t> given, std::span<std::int64_t> taken,
                  std::span<std::int64_t> first) noexcept;

// Words of scratch that chunk_sequence needs for K sources and a chunk of `length`.
[[nodiscard]] std::size_t chunk_sequence_scratch(std::size_t sources, std::size_t length) noexcept;

// The source of every draw of a chunk that starts at t0 and takes `taken`, with
// `given` taken before: unit j of source i may be taken from slot
// floor((j-1)P/p_i) + 1 of the piece and is due at slot ceil(jP/p_i); each slot
// takes the unit that is due first (lowest source on a tie). Then no draw is
// one document away from its share. Where that cannot be done (no unit may be
// taken yet, or one is overdue) the chunk is laid out again with the windows of
// its own rates, taken_i / length: always possible, and less than two away.
//
// Returns whether the first schedule held. `out.size()` is the sum of `taken`.
// O(log K) per draw, no allocation.
bool chunk_sequence(std::span<const std::int64_t> weights, std::int64_t total, std::int64_t t0,
                    std::span<const std::int64_t> given, std::span<const std::int64_t> taken,
                    std::span<std::uint64_t> scratch, std::span<std::uint16_t> out) noexcept;

// The greatest source in `sequence`; -1 if it is empty.
int greatest_source(std::span<const std::uint16_t> sequence) noexcept;

// ordinals[k] = next[sequence[k]]++ for every draw: turns sources into ordinals.
void number_draws(std::span<const std::uint16_t> sequence, std::span<std::int64_t> next,
                  std::span<std::int64_t> ordinals) noexcept;

// ++next[sequence[k]] for every draw.
void skip_draws(std::span<const std::uint16_t> sequence, std::span<std::int64_t> next) noexcept;

// quotient[k], remainder[k] = divmod(a[k] * b, d[k]) for a, b >= 0 and d > 0.
// False, with the rest unwritten, at the first quotient above 2^62.
bool scale(std::span<const std::int64_t> a, std::int64_t b, std::span<const std::int64_t> d,
           std::span<std::int64_t> quotient, std::span<std::int64_t> remainder) noexcept;

}  // namespace zephon
