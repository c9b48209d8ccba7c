#include "zephon/read_ahead.hpp"

#include <algorithm>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace zephon {
namespace {

#ifdef __linux__
std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

// Addresses of mapped memory are pointers that were made integers to be rounded.
bool is_resident_page(std::uintptr_t page) noexcept {
  unsigned char in_memory = 0;
  return mincore(reinterpret_cast<void*>(page), page_size(), &in_memory) == 0 &&
         (in_memory & 1U) != 0;
}

// Its first and its last page.
bool is_resident(AddressRange run) noexcept {
  const std::uintptr_t begin = run.begin / page_size() * page_size();
  const std::uintptr_t last = (run.end - 1) / page_size() * page_size();
  return is_resident_page(begin) && (last == begin || is_resident_page(last));
}

bool ask(AddressRange run) noexcept {
  const std::uintptr_t begin = run.begin / page_size() * page_size();
  return madvise(reinterpret_cast<void*>(begin), run.end - begin, MADV_WILLNEED) == 0;
}
#else
bool is_resident(AddressRange) noexcept { return true; }
bool ask(AddressRange) noexcept { return false; }
#endif

// Runs that are looked at first: where all of these are in memory, so is the rest.
constexpr std::size_t kProbes = 16;

// The run that begins at `ranges[i]`, and the next range that is not in it.
struct Run {
  AddressRange range;
  std::size_t next;
};

Run run_at(std::span<const AddressRange> ranges, std::size_t i, std::uintptr_t gap) noexcept {
  AddressRange run = ranges[i];
  for (++i; i < ranges.size() && (ranges[i].begin <= run.end || ranges[i].begin - run.end <= gap);
       ++i) {
    run.end = std::max(run.end, ranges[i].end);
  }
  return {run, i};
}

bool all_resident(std::span<const AddressRange> ranges) noexcept {
  const std::size_t step = std::max<std::size_t>(ranges.size() / kProbes, 1);
  for (std::size_t i = 0; i < ranges.size(); i += step) {
    if (ranges[i].begin != ranges[i].end && !is_resident(ranges[i])) return false;
  }
  return true;
}

}  // namespace

Advice will_need(std::span<AddressRange> ranges, std::uintptr_t gap, bool skip_resident) noexcept {
  Advice advice{0, 0};
  if (skip_resident && all_resident(ranges)) return advice;
  std::sort(ranges.begin(), ranges.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.begin < b.begin; });
  for (std::size_t i = 0; i < ranges.size();) {
    const auto [run, next] = run_at(ranges, i, gap);
    i = next;
    if (run.begin == run.end) continue;
    ++advice.runs;
    if (!(skip_resident && is_resident(run))) advice.asked += ask(run) ? 1 : 0;
  }
  return advice;
}

}  // namespace zephon
