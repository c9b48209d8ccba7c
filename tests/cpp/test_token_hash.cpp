#include <vector>

#include "check.hpp"
#include "zephon/token_hash.hpp"

namespace {

template <typename Token>
std::uint64_t hash(const std::vector<Token>& ids, zephon::TokenType type, std::size_t cut) {
  zephon::TokenHash made;
  made.add(ids.data(), type, static_cast<std::int64_t>(cut));
  made.add(ids.data() + cut, type, static_cast<std::int64_t>(ids.size() - cut));
  return made.value();
}

}  // namespace

CASE("the value is fixed: a state written today is compared with it tomorrow") {
  CHECK_EQ(zephon::TokenHash{}.value(), 9511771822457699226u);
  CHECK_EQ(hash(std::vector<std::int32_t>{1, 2, 3, -4, 5, 60000}, zephon::TokenType::int32, 0),
           3052478841286362526u);
}

CASE("types and cuts do not matter, ids do") {
  check::Random random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint16_t> ids(static_cast<std::size_t>(random.below(30)) + 1);
    for (auto& id : ids) id = static_cast<std::uint16_t>(random.below(60000));
    const std::vector<std::int64_t> wide(ids.begin(), ids.end());
    const auto cut =
        static_cast<std::size_t>(random.below(static_cast<std::int64_t>(ids.size()) + 1));
    const std::uint64_t value = hash(ids, zephon::TokenType::uint16, 0);
    CHECK_EQ(hash(wide, zephon::TokenType::int64, cut), value);
    ids[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(ids.size())))] ^= 1;
    CHECK_EQ(hash(ids, zephon::TokenType::uint16, cut) == value, false);
  }
}

CHECK_MAIN
