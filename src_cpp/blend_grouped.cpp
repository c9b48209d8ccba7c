#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

#include "zephon/blend_routes.hpp"

namespace zephon {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::size_t lane = 4;          // the arrays are padded to a multiple of this
constexpr std::size_t inner_block = 16;  // steps for which next_ is chosen
constexpr std::size_t staged_from = 64;  // groups from which near_ pays

std::size_t padded(std::size_t count) noexcept { return (count + lane - 1) / lane * lane; }

// Position that a step multiplies the weights with.
double position_of(std::size_t step) noexcept { return std::max(static_cast<double>(step), 1.0); }

// Fills in the errors and returns the greatest. In independent lanes, which the
// compiler turns into vectors; a maximum does not depend on the order.
double greatest_error(const double* weights, const double* rounds, double* errors,
                      std::size_t count, double position) noexcept {
  std::array<double, lane> greatest;
  greatest.fill(-infinity);
  for (std::size_t at = 0; at < count; at += lane) {
    for (std::size_t k = 0; k < lane; ++k) {
      const double error = weights[at + k] * position - rounds[at + k];
      errors[at + k] = error;
      greatest[k] = error > greatest[k] ? error : greatest[k];
    }
  }
  return std::max(std::max(greatest[0], greatest[1]), std::max(greatest[2], greatest[3]));
}

// Dataset 0 to the last, again and again.
template <typename Id>
void take_turns(std::size_t datasets, BlendOutput<Id> out, Threads threads) noexcept {
  constexpr std::size_t together = 1 << 16;
  const std::size_t steps = out.ids.size();
  std::atomic<std::size_t> taken{0};
  on_threads(threads.worth(steps), [&] {
    for (;;) {
      const std::size_t first = taken.fetch_add(together);
      if (first >= steps) return;
      std::size_t dataset = first % datasets;
      auto round = static_cast<std::int64_t>(first / datasets);
      for (std::size_t step = first; step < std::min(first + together, steps); ++step) {
        out.ids[step] = static_cast<Id>(dataset);
        out.samples[step] = round;
        const bool last = ++dataset == datasets;
        dataset = last ? 0 : dataset;
        round += last ? 1 : 0;
      }
    }
  });
  for (std::size_t dataset = 0; dataset < datasets; ++dataset) {
    out.counts[dataset] =
        static_cast<std::int64_t>(steps / datasets + (dataset < steps % datasets ? 1 : 0));
  }
}

}  // namespace

GroupedBlend::Candidates::Candidates(std::size_t room)
    : weights(padded(room) + lane),
      rounds(padded(room) + lane, infinity),
      errors(padded(room) + lane),
      parents(padded(room) + lane) {}

void GroupedBlend::Candidates::pad() noexcept {
  for (std::size_t at = count; at < padded(count); ++at) {
    weights[at] = 0.0;
    rounds[at] = infinity;
  }
}

void GroupedBlend::Candidates::remove(std::size_t at) noexcept {
  for (std::size_t next = at + 1; next < count; ++next) {
    weights[next - 1] = weights[next];
    rounds[next - 1] = rounds[next];
    parents[next - 1] = parents[next];
  }
  --count;
  weights[count] = 0.0;
  rounds[count] = infinity;
}

void GroupedBlend::Threshold::reached(double least_winner) noexcept {
  value = value == -infinity ? least_winner : value + (least_winner - value) * 0.5;
  step = std::max(step * 0.8, 1e-9);
}

void GroupedBlend::Threshold::missed() noexcept {
  value -= step;
  step *= 1.5;
}

GroupedBlend::GroupedBlend(std::span<const double> weights, std::span<const std::int64_t> limits,
                           std::size_t steps)
    : all_(weights.size()),
      near_(weights.size()),
      next_(weights.size()),
      near_threshold_{-infinity},
      next_threshold_{-infinity},
      staged_(false),
      members_(weights.size()) {
  std::iota(members_.begin(), members_.end(), 0U);
  const auto limit = [&](std::uint32_t member) {
    return limits.empty() ? infinity : static_cast<double>(limits[member]);
  };
  const double heaviest = *std::max_element(weights.begin(), weights.end());
  const bool merge = heaviest * position_of(steps) < 0x1p52;
  if (merge) {
    std::stable_sort(members_.begin(), members_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return weights[a] != weights[b] ? weights[a] < weights[b] : limit(a) < limit(b);
    });
  }
  std::vector<std::size_t> starts;
  for (std::size_t at = 0; at < members_.size(); ++at) {
    const bool same = merge && at > 0 && weights[members_[at]] == weights[members_[at - 1]] &&
                      limit(members_[at]) == limit(members_[at - 1]);
    if (!same) starts.push_back(at);
  }
  starts.push_back(members_.size());
  // Groups ascend by their first member, so that among groups of one the first
  // of equal errors is the lowest index.
  std::vector<std::size_t> order(starts.size() - 1);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return members_[starts[a]] < members_[starts[b]];
  });
  std::vector<std::uint32_t> regrouped;
  regrouped.reserve(members_.size());
  for (const std::size_t group : order) {
    const std::uint32_t first = members_[starts[group]];
    all_.weights[all_.count] = weights[first];
    all_.rounds[all_.count] = 0.0;
    ++all_.count;
    begins_.push_back(regrouped.size());
    limits_.push_back(limit(first));
    regrouped.insert(regrouped.end(), members_.begin() + static_cast<std::ptrdiff_t>(starts[group]),
                     members_.begin() + static_cast<std::ptrdiff_t>(starts[group + 1]));
  }
  members_ = std::move(regrouped);
  turns_ = begins_;
  begins_.push_back(members_.size());
  staged_ = all_.count >= staged_from;
}

// Copies the groups whose error at `position` reaches the threshold.
void GroupedBlend::select(const Candidates& from, Candidates& to, double position,
                          double threshold) noexcept {
  for (std::size_t at = 0; at < from.count; ++at) {
    to.errors[at] = from.weights[at] * position - from.rounds[at];
  }
  std::size_t count = 0;
  for (std::size_t at = 0; at < from.count; ++at) {
    to.parents[count] = static_cast<std::uint32_t>(at);
    count += to.errors[at] >= threshold;
  }
  for (std::size_t at = 0; at < count; ++at) {
    to.weights[at] = from.weights[to.parents[at]];
    to.rounds[at] = from.rounds[to.parents[at]];
  }
  to.count = count;
  to.pad();
}

// The candidate with that error, the greatest; of several the one whose member
// has the lowest index.
std::size_t GroupedBlend::winner(const Candidates& set, double error) const noexcept {
  std::size_t first = 0;
  while (set.errors[first] != error) ++first;
  if (members_.size() == all_.count) return first;
  const auto member_of = [&](std::size_t at) {
    std::uint32_t group = set.parents[at];
    if (staged_) group = near_.parents[group];
    return members_[turns_[group]];
  };
  std::size_t best = first;
  for (std::size_t at = first + 1; at < set.count; ++at) {
    if (set.errors[at] == error && member_of(at) < member_of(best)) best = at;
  }
  return best;
}

// Writes the member whose turn it is and passes the turn on.
template <typename Id>
void GroupedBlend::draw(std::size_t group, std::size_t step, double round,
                        BlendOutput<Id> out) noexcept {
  out.ids[step] = static_cast<Id>(members_[turns_[group]]);
  out.samples[step] = static_cast<std::int64_t>(round);
  if (++turns_[group] == begins_[group + 1]) {
    turns_[group] = begins_[group];
    all_.rounds[group] = round + 1.0 == limits_[group] ? infinity : round + 1.0;
  }
}

template <typename Id>
void GroupedBlend::run(BlendOutput<Id> out, Threads threads) noexcept {
  if (all_.count == 1) return take_turns(members_.size(), out, threads);
  const std::size_t steps = out.ids.size();
  const std::size_t outer_block =
      inner_block *
      (1 + static_cast<std::size_t>(std::sqrt(static_cast<double>(all_.count)) / 4.0));
  Candidates& source = staged_ ? near_ : all_;
  std::size_t step = 0;
  while (step < steps) {
    // Steps for which the first selection holds.
    const std::size_t outer_end = staged_ ? std::min(steps, step + outer_block) : steps;
    if (staged_) select(all_, near_, position_of(outer_end - 1), near_threshold_.value);
    double least_outer = infinity;
    bool outer_missed = false;
    while (step < outer_end && !outer_missed) {
      const std::size_t end = std::min(outer_end, step + inner_block);
      const double end_position = position_of(end - 1);
      const double floor =
          staged_ ? std::max(next_threshold_.value, near_threshold_.value) : next_threshold_.value;
      select(source, next_, end_position, floor);
      double least = infinity;
      double greatest = -infinity;
      while (step < end) {
        greatest = greatest_error(next_.weights.data(), next_.rounds.data(), next_.errors.data(),
                                  padded(next_.count), position_of(step));
        if (!(greatest >= floor) || next_.count == 0) break;
        const std::size_t at = winner(next_, greatest);
        const std::size_t parent = next_.parents[at];
        const std::size_t group = staged_ ? near_.parents[parent] : parent;
        draw(group, step, next_.rounds[at], out);
        const double rounds = all_.rounds[group];
        source.rounds[parent] = rounds;
        next_.rounds[at] = rounds;
        least = std::min(least, greatest);
        ++step;
        if (next_.weights[at] * end_position - rounds < floor) next_.remove(at);
      }
      if (step == end) {
        next_threshold_.reached(least);
      } else {
        next_threshold_.missed();
        outer_missed = staged_ && next_threshold_.value < near_threshold_.value;
      }
      least_outer = std::min(least_outer, least);
    }
    if (staged_) {
      if (outer_missed) {
        near_threshold_.missed();
      } else {
        near_threshold_.reached(least_outer);
      }
    }
  }
  for (std::size_t group = 0; group < all_.count; ++group) {
    for (std::size_t at = begins_[group]; at < begins_[group + 1]; ++at) {
      const double rounds = all_.rounds[group] == infinity ? limits_[group] : all_.rounds[group];
      out.counts[members_[at]] = static_cast<std::int64_t>(rounds) + (at < turns_[group] ? 1 : 0);
    }
  }
}

template void GroupedBlend::run(BlendOutput<std::int16_t>, Threads) noexcept;
template void GroupedBlend::run(BlendOutput<std::int32_t>, Threads) noexcept;

}  // namespace zephon
