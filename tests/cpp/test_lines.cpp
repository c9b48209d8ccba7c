#include <string_view>
#include <vector>

#include "check.hpp"
#include "zephon/lines.hpp"

namespace {

// An own allocation of the exact size, so that a sanitizer sees a read beside it.
std::vector<std::uint8_t> bytes(std::string_view text) { return {text.begin(), text.end()}; }

std::vector<std::int64_t> find(const std::vector<std::uint8_t>& data, std::int64_t base,
                               std::size_t room) {
  std::vector<std::int64_t> out(room);
  out.resize(zephon::find_newlines(data, base, out));
  return out;
}

}  // namespace

CASE("no bytes hold no newline") {
  CHECK_EQ(zephon::count_newlines({}), 0u);
  CHECK_EQ(find({}, 7, 2), std::vector<std::int64_t>{});
}

CASE("only newlines are counted, so a last line without one is not") {
  CHECK_EQ(zephon::count_newlines(bytes("one\r\ntwo\n\nthree")), 3u);
}

CASE("positions are shifted by the base") {
  CHECK_EQ(find(bytes("a\n\nb\n"), 100, 3), (std::vector<std::int64_t>{101, 102, 104}));
}

CASE("a full output ends the search without a write behind it") {
  CHECK_EQ(find(bytes("\n\n\n"), 0, 2), (std::vector<std::int64_t>{0, 1}));
  CHECK_EQ(find(bytes("\n"), 0, 0), std::vector<std::int64_t>{});
}

CASE("random bytes give the positions of a plain loop") {
  check::Random random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint8_t> data(static_cast<std::size_t>(random.below(300)));
    std::vector<std::int64_t> expected;
    for (std::size_t i = 0; i < data.size(); ++i) {
      data[i] = random.below(5) == 0 ? std::uint8_t{'\n'} : std::uint8_t{'x'};
      if (data[i] == '\n') expected.push_back(static_cast<std::int64_t>(i));
    }
    CHECK_EQ(zephon::count_newlines(data), expected.size());
    CHECK_EQ(find(data, 0, expected.size()), expected);
  }
}

CHECK_MAIN
