#include <array>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "zephon/sentence_mapping.hpp"

namespace {

int failures = 0;

void check(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  ++failures;
}

const std::vector<std::int64_t> documents{0, 3, 3, 4, 9};
const std::vector<std::int32_t> sizes{5, 6, 7, 8, 4, 4, 4, 4, 4};

zephon::SentenceRules rules(std::int64_t fewest) { return {fewest, 2, 2}; }

void test_documents_are_marked() {
  std::vector<std::uint8_t> used(4);
  const auto marked = zephon::mark_documents(documents, sizes, rules(2), used);
  check(used == std::vector<std::uint8_t>{1, 0, 0, 1}, "documents of two sentences or more");
  check(marked.usable == 2 && marked.too_short == 2 && marked.too_long == 0, "counts");
  check(marked.largest == 5, "the largest");

  auto longer = sizes;
  longer[8] = zephon::longest_sentence + 1;
  const auto again = zephon::mark_documents(documents, longer, rules(2), used);
  check(used[3] == 0 && again.too_long == 1, "a long sentence leaves its document out");
}

void test_mapping_is_resumed_where_there_is_no_room() {
  std::vector<std::uint8_t> used(4);
  zephon::mark_documents(documents, sizes, rules(1), used);
  std::vector<std::uint32_t> whole(27);
  zephon::TargetLength target(8, 0, 1);
  const auto all =
      zephon::map_sentences<std::uint32_t>(documents, sizes, used, rules(1), target, 0, whole);
  check(all.next_document == 4, "all documents");
  whole.resize(3 * all.rows);
  check(whole == std::vector<std::uint32_t>{0, 3, 8, 3, 4, 8, 4, 6, 8, 6, 9, 8}, "rows");

  std::vector<std::uint32_t> pieces;
  std::size_t document = 0;
  while (document < 4) {
    std::array<std::uint32_t, 15> piece{};
    const auto some = zephon::map_sentences<std::uint32_t>(documents, sizes, used, rules(1), target,
                                                           document, piece);
    document = some.next_document;
    pieces.insert(pieces.end(), piece.begin(),
                  piece.begin() + static_cast<std::ptrdiff_t>(3 * some.rows));
  }
  check(pieces == whole, "the same in pieces");
}

void test_blocks_take_the_title_off() {
  std::vector<std::uint8_t> used(4);
  const zephon::SentenceRules both{1, 1, 1};
  zephon::mark_documents(documents, sizes, both, used);
  const std::vector<std::int32_t> titles{0, 0, 0, 9};
  std::vector<std::uint64_t> out(36);
  const auto all =
      zephon::map_blocks<std::uint64_t>(documents, sizes, titles, used, both, 8, 0, 10, out);
  check(all.rows == 8, "a block per sentence where the title takes everything");
  check(out[0] == 0 && out[1] == 2 && out[2] == 0 && out[3] == 10, "first block");
  check(out[28] == 8 && out[29] == 9 && out[30] == 3 && out[31] == 17, "last block");
}

void test_shuffle_moves_whole_rows() {
  std::vector<std::uint32_t> rows;
  for (std::uint32_t row = 0; row < 500; ++row) rows.insert(rows.end(), {row, row + 1, row + 2});
  zephon::shuffle_rows<std::uint32_t>(rows, 3, 42);
  std::vector<bool> seen(500);
  for (std::size_t at = 0; at < rows.size(); at += 3) {
    check(rows[at + 1] == rows[at] + 1 && rows[at + 2] == rows[at] + 2, "rows stay whole");
    seen[rows[at]] = true;
  }
  for (const bool found : seen) check(found, "every row is kept");
  check(rows[0] != 0 || rows[3] != 1, "rows are moved");
}

}  // namespace

int main() {
  test_documents_are_marked();
  test_mapping_is_resumed_where_there_is_no_room();
  test_blocks_take_the_title_off();
  test_shuffle_moves_whole_rows();
  return failures == 0 ? 0 : 1;
}
