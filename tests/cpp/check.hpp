// The little that the C++ tests need: named cases, checks that show both sides.
//
//   CASE("a line without newline is not counted") { CHECK_EQ(count(...), 0u); }
//
// Each test program holds one or more cases and ends with `CHECK_MAIN`. A failed
// check is reported with its place, and the program goes on and returns 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <vector>

namespace check {

struct Case {
  const char* name;
  void (*body)();
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

inline int& failures() {
  static int count = 0;
  return count;
}

struct Register {
  Register(const char* name, void (*body)()) { cases().push_back({name, body}); }
};

template <typename T>
void print(const T& value) {
  if constexpr (sizeof(T) == 1) {
    std::cerr << static_cast<int>(value);  // a byte, not a character
  } else {
    std::cerr << value;
  }
}

template <typename T>
void print(const std::vector<T>& values) {
  std::cerr << '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i != 0) std::cerr << ", ";
    print(values[i]);
  }
  std::cerr << ']';
}

template <typename A, typename B>
void equal(const A& got, const B& expected, const char* text, const char* file, int line) {
  if (got == expected) return;
  ++failures();
  std::cerr << file << ':' << line << ": " << text << "\n  got      ";
  print(got);
  std::cerr << "\n  expected ";
  print(expected);
  std::cerr << '\n';
}

inline int run() {
  for (const Case& one : cases()) {
    const int before = failures();
    one.body();
    std::printf("%s  %s\n", failures() == before ? "ok  " : "FAIL", one.name);
  }
  if (cases().empty()) std::fputs("no case was registered\n", stderr);
  return failures() == 0 && !cases().empty() ? 0 : 1;
}

// A stream of 64-bit values that is the same everywhere, for randomised cases.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {  // splitmix64
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // In [0, bound), bound >= 1; near enough to uniform for a test.
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(bound));
  }

 private:
  std::uint64_t state_;
};

}  // namespace check

#define CHECK_JOIN_(a, b) a##b
#define CHECK_JOIN(a, b) CHECK_JOIN_(a, b)
#define CASE(name)                                                                                 \
  static void CHECK_JOIN(case_, __LINE__)();                                                       \
  static const check::Register CHECK_JOIN(register_, __LINE__)(name, CHECK_JOIN(case_, __LINE__)); \
  static void CHECK_JOIN(case_, __LINE__)()
#define CHECK_EQ(got, expected) check::equal(got, expected, #got, __FILE__, __LINE__)
#define CHECK_MAIN \
  int main() { return check::run(); }
