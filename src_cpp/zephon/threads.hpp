// Sharing the work of one call among threads that live no longer than it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <thread>

namespace zephon {

inline constexpr std::size_t most_threads = 64;

// How many threads a call may use. The result of a call never depends on it.
struct Threads {
  std::size_t most = 1;               // the calling thread included
  std::size_t least_items = 1000000;  // each has as much to do, or is not started

  // Threads for so many items, from 1 to most_threads.
  [[nodiscard]] std::size_t worth(std::size_t items) const noexcept {
    const std::size_t useful = items / std::max<std::size_t>(least_items, 1);
    return std::clamp<std::size_t>(std::min(most, useful), 1, most_threads);
  }
};

// Calls work() in this thread and in threads - 1 new ones, and returns when all
// of these calls have. If the system gives fewer threads, there are fewer calls:
// each takes what is left to do from a place that they share. work must not throw.
template <typename Work>
void on_threads(std::size_t threads, const Work& work) noexcept {
  std::array<std::thread, most_threads> others;
  std::size_t started = 0;
  try {
    for (; started + 1 < std::min(threads, most_threads); ++started) {
      others[started] = std::thread([&work]() noexcept { work(); });
    }
  } catch (...) {  // no thread, or no memory for one
  }
  work();
  for (std::size_t at = 0; at < started; ++at) others[at].join();
}

}  // namespace zephon
