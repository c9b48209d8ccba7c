#include <atomic>
#include <cstddef>
#include <set>
#include <thread>
#include <vector>

#include "check.hpp"
#include "zephon/threads.hpp"

using zephon::Threads;

CASE("each thread has enough to do, and one is the least") {
  CHECK_EQ((Threads{8, 100}.worth(0)), 1u);
  CHECK_EQ((Threads{8, 100}.worth(199)), 1u);
  CHECK_EQ((Threads{8, 100}.worth(200)), 2u);
  CHECK_EQ((Threads{8, 100}.worth(100000)), 8u);
  CHECK_EQ((Threads{1000, 1}.worth(100000)), zephon::most_threads);
  CHECK_EQ((Threads{0, 0}.worth(5)), 1u);
}

CASE("every call has returned before the function does, one of them made here") {
  std::vector<std::thread::id> callers(8);
  std::atomic<std::size_t> calls{0};
  zephon::on_threads(8, [&] { callers[calls++] = std::this_thread::get_id(); });
  CHECK_EQ(calls.load(), std::size_t{8});
  const std::set<std::thread::id> different(callers.begin(), callers.end());
  CHECK_EQ(different.count(std::this_thread::get_id()), std::size_t{1});
}

CASE("one thread is the calling one") {
  int calls = 0;
  zephon::on_threads(1, [&] { ++calls; });
  CHECK_EQ(calls, 1);
}

CHECK_MAIN
