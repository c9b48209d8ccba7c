// Blends that several threads compute, each its own run of steps.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "zephon/threads.hpp"

namespace zephon {

// The counts that the weights alone suggest after `step` steps: the whole parts,
// and one more for those with the greatest remainders. False if the weights sum
// to something else than 1, so that this is no good guess.
[[nodiscard]] bool guess_counts(std::span<const double> weights, std::size_t step,
                                std::span<std::int64_t> counts) noexcept;

// Blends `steps` steps from zero `counts` on, which become those at the end.
// run(first, end, counts, write) takes the steps from `first` to `end` likewise,
// and writes them if `write` is set.
//
// The steps are cut into some chains for each thread. Where a chain begins, the
// counts are guessed, some steps before to let them settle, and remembered. In
// the end they are compared with those at which the chain before has ended; a
// chain that began wrongly, or could not be guessed, is run again from there. So
// the result never depends on a guess. After a few wrong ones no more are made.
//
// Allocates 16 bytes per dataset and chain before the first step, and can throw
// std::bad_alloc only then; nothing for one thread.
template <typename Run>
void blend_on_threads(std::span<const double> weights, std::size_t steps,
                      std::span<std::int64_t> counts, Threads threads, const Run& run) {
  constexpr std::size_t chains_per_thread = 4;  // so that a slow thread does fewer
  constexpr std::size_t least_settling = 256;
  const std::size_t count = threads.worth(steps);
  if (count == 1) return run(0, steps, counts, true);

  struct Chain {
    std::vector<std::int64_t> begun, ended;
    std::atomic<bool> done{false};
  };
  const std::size_t length = (steps - 1) / (count * chains_per_thread) + 1;
  std::vector<Chain> chains((steps - 1) / length + 1);
  for (Chain& chain : chains) {
    chain.begun.resize(weights.size());
    chain.ended.resize(weights.size());
  }
  const std::size_t settling = std::max(least_settling, length / 256);
  std::atomic<std::size_t> taken{0};
  std::atomic<std::size_t> wrong{0};
  on_threads(count, [&] {
    for (;;) {
      const std::size_t at = taken.fetch_add(1);
      if (at >= chains.size() || wrong > chains.size() / 4) return;
      Chain& chain = chains[at];
      const std::size_t first = at * length;
      const std::size_t before = first - std::min(first, settling);
      if (!guess_counts(weights, before, chain.begun)) return;
      run(before, first, std::span(chain.begun), false);
      chain.ended = chain.begun;  // of the same size: nothing is allocated
      run(first, std::min(first + length, steps), std::span(chain.ended), true);
      chain.done = true;
      const auto fits = [&](std::size_t next) {
        return !chains[next - 1].done || !chains[next].done ||
               chains[next].begun == chains[next - 1].ended;
      };
      if (at > 0 && !fits(at)) ++wrong;
      if (at + 1 < chains.size() && !fits(at + 1)) ++wrong;
    }
  });
  for (std::size_t at = 0; at < chains.size(); ++at) {
    Chain& chain = chains[at];
    if (chain.done && std::equal(counts.begin(), counts.end(), chain.begun.begin())) {
      std::copy(chain.ended.begin(), chain.ended.end(), counts.begin());
    } else {
      run(at * length, std::min((at + 1) * length, steps), counts, true);
    }
  }
}

}  // namespace zephon
