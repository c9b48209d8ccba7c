// Telling the system which parts of mapped files are about to be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace zephon {

// Bytes [begin, end) of memory, as addresses.
struct AddressRange {
  std::uintptr_t begin;
  std::uintptr_t end;
};

struct Advice {
  std::int64_t runs;   // that the ranges came to; 0 where all are left out
  std::int64_t asked;  // of those, that the system was asked for
};

// Asks for the pages of `ranges` (MADV_WILLNEED), which all lie in mapped files. Sorts
// them, unless all are left out; those at most `gap` bytes apart become one run, which is
// asked for in one call.
// With `skip_resident` a run is left out if its first and its last page are in memory
// already (mincore, which tells the truth only of files that the caller may write), and
// all of them if that is so of some 16 of the ranges, spread over all.
// Advice that the system does not take is not an error, and where there is none nothing
// happens. A system call or two per run, and no wait for the disk.
Advice will_need(std::span<AddressRange> ranges, std::uintptr_t gap, bool skip_resident) noexcept;

}  // namespace zephon
