#include "zephon/cpu.hpp"

#if defined(__x86_64__) && defined(__GNUC__)

#include <cpuid.h>

#include <cstdint>

namespace zephon {
namespace {

bool ask() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned osxsave = 1U << 27;
  if ((c & osxsave) == 0) return false;
  // The registers that the operating system saves: SSE, AVX, masks, and both parts of ZMM.
  std::uint32_t saved = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  constexpr std::uint32_t needed = 0xe6;
  if ((saved & needed) != needed) return false;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned bmi = 1U << 3, avx512f = 1U << 16, avx512dq = 1U << 17;
  constexpr unsigned wanted = bmi | avx512f | avx512dq;
  return (b & wanted) == wanted;
}

}  // namespace

bool has_avx512() noexcept {
  static const bool found = ask();
  return found;
}

}  // namespace zephon

#else

namespace zephon {

bool has_avx512() noexcept { return false; }

}  // namespace zephon

#endif
