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

namespace {

struct Found {
  std::vector<std::int64_t> begins, ends, numbers;
  zephon::OpenLine line;
};

// Scans `text` in two pieces, each in an allocation of its own.
Found scan(std::string_view text, std::size_t cut, std::int64_t begin = 0) {
  Found found;
  found.line.begin = begin;
  for (const auto& [base, part] :
       {std::pair{std::size_t{0}, text.substr(0, cut)}, std::pair{cut, text.substr(cut)}}) {
    const auto data = bytes(part);
    const std::size_t room = zephon::count_newlines(data);
    std::vector<std::int64_t> begins(room), ends(room), numbers(room);
    const std::size_t count =
        zephon::scan_records(data, static_cast<std::int64_t>(base), found.line, begins.data(),
                             ends.data(), numbers.data());
    const auto to = static_cast<std::ptrdiff_t>(count);
    found.begins.insert(found.begins.end(), begins.begin(), begins.begin() + to);
    found.ends.insert(found.ends.end(), ends.begin(), ends.begin() + to);
    found.numbers.insert(found.numbers.end(), numbers.begin(), numbers.begin() + to);
  }
  return found;
}

}  // namespace

CASE("blank lines are no records, wherever the text is cut") {
  constexpr std::string_view text = "a\n \t\r\n\nbc\r\n  d";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const Found found = scan(text, cut);
    CHECK_EQ(found.begins, (std::vector<std::int64_t>{0, 7}));
    CHECK_EQ(found.ends, (std::vector<std::int64_t>{1, 10}));
    CHECK_EQ(found.numbers, (std::vector<std::int64_t>{1, 4}));
    CHECK_EQ(found.line.begin, 11);
    CHECK_EQ(found.line.number, 5);
    CHECK_EQ(found.line.blank, false);
  }
}

CASE("a text may begin behind its first bytes") {
  const Found found = scan("xyz\n", 0, 3);
  CHECK_EQ(found.begins, std::vector<std::int64_t>{});
  CHECK_EQ(found.line.begin, 4);
  CHECK_EQ(scan("xyz1\n", 2, 3).begins, std::vector<std::int64_t>{3});
}
