// Ways to compute the blends of blending.hpp. All of them give the same steps;
// they differ in which numbers of datasets and weights they are fast for.
//
// ids and samples have one entry per step; counts one per dataset, zero on
// entry and the number of draws on return.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "zephon/threads.hpp"

namespace zephon {

template <typename Id>
struct BlendOutput {
  std::span<Id> ids;
  std::span<std::int64_t> samples;
  std::span<std::int64_t> counts;
};

// The definition as a loop: each step looks at every dataset. No set-up, so it
// is the best for few datasets or few steps. `limits`, if not empty, is how
// often each dataset can be drawn; together they allow every step. Several threads
// share the steps as blend_chains.hpp says.
template <typename Id>
void blend_plainly(std::span<const double> weights, std::span<const std::int64_t> limits,
                   BlendOutput<Id> out, Threads threads = {});

// Looks at few datasets per step, for many of them. Two observations:
//
// * Datasets of equal weight take turns. They are one group, of which only the
//   member whose turn it is competes. (Needs weight * steps below 2^52, where a
//   count more always makes a smaller error.)
// * Until it is drawn, a group's error does not fall from step to step, even
//   after rounding. So a group whose error at the end of a block of steps is
//   below a threshold stays below it all through the block, and need not be
//   looked at while the greatest error is not. If that falls below the
//   threshold, the block ends early and a lower threshold is chosen.
//
// The candidates are narrowed in two stages if there are many groups. The
// constructor allocates; run() does not. Several threads are of use only for one
// group.
class GroupedBlend {
 public:
  GroupedBlend(std::span<const double> weights, std::span<const std::int64_t> limits,
               std::size_t steps);

  [[nodiscard]] std::size_t groups() const noexcept { return all_.count; }

  template <typename Id>
  void run(BlendOutput<Id> out, Threads threads = {}) noexcept;

 private:
  // Competing groups in ascending order. Error at position x is
  // weights[i] * x - rounds[i]; the arrays are padded with an error of -inf.
  struct Candidates {
    std::vector<double> weights, rounds, errors;
    std::vector<std::uint32_t> parents;  // index in the set this one is taken from
    std::size_t count = 0;

    explicit Candidates(std::size_t room);
    void pad() noexcept;
    void remove(std::size_t at) noexcept;
  };

  // The error from which on groups compete, found by trial.
  struct Threshold {
    double value;
    double step = 0.05;

    void reached(double least_winner) noexcept;
    void missed() noexcept;
  };

  static void select(const Candidates& from, Candidates& to, double position,
                     double threshold) noexcept;
  [[nodiscard]] std::size_t winner(const Candidates& set, double error) const noexcept;
  template <typename Id>
  void draw(std::size_t group, std::size_t step, double round, BlendOutput<Id> out) noexcept;

  Candidates all_, near_, next_;
  Threshold near_threshold_, next_threshold_;
  bool staged_;  // whether near_ is used, or next_ is taken from all_
  // Members of group g are members_[begins_[g]] to members_[begins_[g + 1] - 1].
  std::vector<std::uint32_t> members_;
  std::vector<std::size_t> begins_, turns_;
  std::vector<double> limits_;  // rounds after which a group is used up
};

// Vectors of 8 datasets and several stretches of steps at a time, to hide the
// latency of each. Where a stretch begins, the counts are guessed (the weights'
// shares, then some steps to settle) and compared with those at which the
// stretch before has ended; a stretch that began wrongly is done again.
//
// False, with nothing done, if this processor has no AVX-512 or there are more
// than 64 datasets. Several threads share the steps as blend_chains.hpp says.
template <typename Id>
bool blend_in_stretches(std::span<const double> weights, BlendOutput<Id> out, Threads threads = {});

inline constexpr std::size_t most_in_stretches = 64;

}  // namespace zephon
