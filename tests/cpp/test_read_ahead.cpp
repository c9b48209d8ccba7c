#include <sys/mman.h>

#include <vector>

#include "check.hpp"
#include "zephon/read_ahead.hpp"

namespace {

constexpr std::size_t kPage = 4096;

struct Mapping {
  explicit Mapping(std::size_t pages)
      : size(pages * kPage),
        memory(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { munmap(memory, size); }

  [[nodiscard]] zephon::AddressRange range(std::size_t from, std::size_t to) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory);
    return {begin + from, begin + to};
  }

  std::size_t size;
  void* memory;
};

}  // namespace

CASE("ranges near each other are one run, in any order") {
  const Mapping mapping(64);
  std::vector<zephon::AddressRange> ranges{
      mapping.range(40 * kPage, 40 * kPage + 5), mapping.range(10, 90), mapping.range(100, 9000),
      mapping.range(9100, 9100), mapping.range(20 * kPage, 21 * kPage)};
  const zephon::Advice near = zephon::will_need(ranges, 4 * kPage, false);
  CHECK_EQ(near.runs, 3);
  CHECK_EQ(near.asked, 3);
  const zephon::Advice far = zephon::will_need(ranges, 64 * kPage, false);
  CHECK_EQ(far.runs, 1);
}

CASE("what is in memory is not asked for, if that is wished") {
  const Mapping mapping(64);
  static_cast<char*>(mapping.memory)[0] = 1;
  static_cast<char*>(mapping.memory)[3 * kPage] = 1;
  std::vector<zephon::AddressRange> ranges{mapping.range(0, 3 * kPage + 1),
                                           mapping.range(30 * kPage, 31 * kPage)};
  const zephon::Advice advice = zephon::will_need(ranges, 0, true);
  CHECK_EQ(advice.runs, 2);
  CHECK_EQ(advice.asked, 1);
  CHECK_EQ(zephon::will_need(ranges, 0, false).asked, 2);
}

CASE("no range, or an empty one, asks for nothing") {
  const Mapping mapping(1);
  std::vector<zephon::AddressRange> ranges;
  CHECK_EQ(zephon::will_need(ranges, 0, false).runs, 0);
  ranges.push_back(mapping.range(7, 7));
  CHECK_EQ(zephon::will_need(ranges, 0, false).runs, 0);
}

CHECK_MAIN
