#include <limits>
#include <vector>

#include "check.hpp"
#include "zephon/collate.hpp"

namespace {

using Ids = std::vector<std::int64_t>;
using Mask = std::vector<std::uint8_t>;
using zephon::SourceFault;
using zephon::TokenType;

constexpr std::int64_t kPad = 7;
constexpr std::int64_t kIgnore = -100;
constexpr std::int64_t kUnwritten = -12345;

// A batch over one buffer, with outputs of exactly their size.
template <typename Token>
struct Batch {
  TokenType type;
  std::vector<Token> tokens;
  Ids start, length, splits;
  std::int64_t row_length;
  bool shift = true;
  std::int64_t vocab_size = 0;
  Mask mask_starts = {};
  Mask loss_mask = {};

  Ids input_ids = {}, labels = {}, positions = {}, document_ids = {};
  Mask padding_mask = {};

  zephon::SegmentTable table() const {
    return {length.data(), splits.data(), static_cast<std::int64_t>(length.size()),
            static_cast<std::int64_t>(splits.size()) - 1};
  }

  // Runs with the outputs in `wanted` (a bit each) and returns {segment, offset, id}.
  Ids run(unsigned wanted = 31) {
    const std::int64_t width = shift ? row_length - 1 : row_length;
    const auto cells = static_cast<std::size_t>(table().rows * width);
    for (Ids* out : {&input_ids, &labels, &positions, &document_ids})
      out->assign(cells, kUnwritten);
    padding_mask.assign(cells, 99);
    const zephon::TokenBuffer buffer{tokens.data(), loss_mask.empty() ? nullptr : loss_mask.data(),
                                     static_cast<std::int64_t>(tokens.size()), type};
    const std::vector<std::int32_t> which(length.size(), 0);
    const zephon::SegmentSources sources{&buffer, which.data(), start.data(),
                                         mask_starts.empty() ? nullptr : mask_starts.data(), 1};
    CHECK_EQ(zephon::check_rows(table(), row_length).fault == zephon::RowFault::none, true);
    CHECK_EQ(zephon::check_sources(table(), sources).fault == SourceFault::none, true);
    const zephon::CollateOptions options{row_length, shift, kPad, kIgnore, vocab_size};
    const zephon::CollateOutputs outputs{(wanted & 1) != 0 ? input_ids.data() : nullptr,
                                         shift && (wanted & 2) != 0 ? labels.data() : nullptr,
                                         (wanted & 4) != 0 ? positions.data() : nullptr,
                                         (wanted & 8) != 0 ? document_ids.data() : nullptr,
                                         (wanted & 16) != 0 ? padding_mask.data() : nullptr};
    const auto found = zephon::collate_rows(table(), sources, options, outputs);
    return {found.segment, found.offset, found.id};
  }
};

const Ids kAllInside{-1, 0, 0};

Batch<std::uint16_t> two_rows() {
  return {.type = TokenType::uint16,
          .tokens = {10, 11, 12, 13, 14, 15, 16, 17},
          .start = {5, 0, 3},
          .length = {3, 2, 2},
          .splits = {0, 2, 3},
          .row_length = 5};
}

}  // namespace

CASE("segments are gathered, shifted and numbered, and the rest is padding") {
  auto batch = two_rows();
  CHECK_EQ(batch.run(), kAllInside);
  CHECK_EQ(batch.input_ids, (Ids{15, 16, 17, 10, 13, 14, kPad, kPad}));
  CHECK_EQ(batch.labels, (Ids{16, 17, 10, 11, 14, kIgnore, kIgnore, kIgnore}));
  CHECK_EQ(batch.positions, (Ids{0, 1, 2, 0, 0, 1, 0, 1}));
  CHECK_EQ(batch.document_ids, (Ids{1, 1, 1, 2, 1, 1, 0, 0}));
  CHECK_EQ(batch.padding_mask, (Mask{0, 0, 0, 0, 0, 0, 1, 1}));
}

CASE("without a shift every token is an input") {
  auto batch = two_rows();
  batch.shift = false;
  CHECK_EQ(batch.run(), kAllInside);
  CHECK_EQ(batch.input_ids, (Ids{15, 16, 17, 10, 11, 13, 14, kPad, kPad, kPad}));
  CHECK_EQ(batch.positions, (Ids{0, 1, 2, 0, 1, 0, 1, 0, 1, 2}));
}

CASE("an output that is not wanted is not written, and the others do not change") {
  auto all = two_rows();
  all.run();
  for (unsigned wanted = 0; wanted < 32; ++wanted) {
    auto some = two_rows();
    some.run(wanted);
    const Ids unwritten(8, kUnwritten);
    CHECK_EQ(some.input_ids, (wanted & 1) != 0 ? all.input_ids : unwritten);
    CHECK_EQ(some.labels, (wanted & 2) != 0 ? all.labels : unwritten);
    CHECK_EQ(some.positions, (wanted & 4) != 0 ? all.positions : unwritten);
    CHECK_EQ(some.document_ids, (wanted & 8) != 0 ? all.document_ids : unwritten);
    CHECK_EQ(some.padding_mask, (wanted & 16) != 0 ? all.padding_mask : Mask(8, 99));
  }
}

CASE("a row as one document has ids, columns and positions of its own") {
  auto batch = two_rows();
  Ids positions(8, kUnwritten), row_ids(8, kUnwritten), columns(8, kUnwritten);
  const zephon::TokenBuffer buffer{batch.tokens.data(), nullptr, 8, batch.type};
  const std::vector<std::int32_t> which(3, 0);
  const zephon::SegmentSources sources{&buffer, which.data(), batch.start.data(), nullptr, 1};
  const zephon::CollateOptions options{batch.row_length, true, kPad, kIgnore, 0, true};
  const zephon::CollateOutputs outputs{nullptr,        nullptr,       positions.data(),
                                       nullptr,        nullptr,       zephon::IndexType::int64,
                                       row_ids.data(), columns.data()};
  CHECK_EQ(zephon::collate_rows(batch.table(), sources, options, outputs).segment, -1);
  CHECK_EQ(positions, (Ids{0, 1, 2, 3, 0, 1, 2, 3}));
  CHECK_EQ(row_ids, (Ids{1, 1, 1, 1, 1, 1, 0, 0}));
  CHECK_EQ(columns, (Ids{0, 1, 2, 3, 0, 1, -1, -1}));
}

CASE("positions and document ids of 32 bits are those of 64") {
  auto batch = two_rows();
  batch.run();
  std::vector<std::int32_t> positions(8, 99), document_ids(8, 99);
  const zephon::TokenBuffer buffer{batch.tokens.data(), nullptr, 8, batch.type};
  const std::vector<std::int32_t> which(3, 0);
  const zephon::SegmentSources sources{&buffer, which.data(), batch.start.data(), nullptr, 1};
  const zephon::CollateOptions options{batch.row_length, true, kPad, kIgnore, 0};
  const zephon::CollateOutputs outputs{
      nullptr, nullptr, positions.data(), document_ids.data(), nullptr, zephon::IndexType::int32};
  CHECK_EQ(zephon::collate_rows(batch.table(), sources, options, outputs).segment, -1);
  CHECK_EQ(Ids(positions.begin(), positions.end()), batch.positions);
  CHECK_EQ(Ids(document_ids.begin(), document_ids.end()), batch.document_ids);
}

CASE("masked starts and masked tokens are no targets, a row's first token never is one") {
  auto batch = two_rows();
  batch.mask_starts = {1, 1, 1};
  batch.run();
  CHECK_EQ(batch.labels, (Ids{16, 17, kIgnore, 11, 14, kIgnore, kIgnore, kIgnore}));
  batch = two_rows();
  batch.loss_mask = {1, 0, 1, 0, 1, 0, 0, 1};
  batch.run();
  CHECK_EQ(batch.labels, (Ids{kIgnore, 17, 10, kIgnore, 14, kIgnore, kIgnore, kIgnore}));
}

CASE("a row of one column before the shift has no column after it") {
  Batch<std::int32_t> batch{.type = TokenType::int32,
                            .tokens = {4, -4},
                            .start = {0, 1},
                            .length = {1, 1},
                            .splits = {0, 1, 2},
                            .row_length = 1,
                            .vocab_size = 5};
  CHECK_EQ(batch.run(), (Ids{1, 0, -4}));
}

CASE("the vocabulary covers first, inner and label-only tokens of every type") {
  const auto check_type = []<typename Token>(TokenType type, Token bad) {
    for (std::int64_t at = 0; at < 41; ++at) {
      Batch<Token> batch{.type = type,
                         .tokens = std::vector<Token>(41, Token{99}),
                         .start = {0},
                         .length = {41},
                         .splits = {0, 1},
                         .row_length = 41,
                         .vocab_size = 100};
      CHECK_EQ(batch.run(), kAllInside);
      batch.tokens[static_cast<std::size_t>(at)] = bad;
      CHECK_EQ(batch.run(), (Ids{0, at, static_cast<std::int64_t>(bad)}));
      CHECK_EQ(batch.run(0), (Ids{0, at, static_cast<std::int64_t>(bad)}));
      batch.vocab_size = 0;
      CHECK_EQ(batch.run(), kAllInside);
    }
  };
  check_type(TokenType::int8, std::int8_t{-1});
  check_type(TokenType::int8, std::int8_t{100});
  check_type(TokenType::uint8, std::uint8_t{255});
  check_type(TokenType::int16, std::numeric_limits<std::int16_t>::min());
  check_type(TokenType::uint16, std::uint16_t{65535});
  check_type(TokenType::int32, std::int32_t{-1});
  check_type(TokenType::uint32, std::numeric_limits<std::uint32_t>::max());
  check_type(TokenType::int64, std::numeric_limits<std::int64_t>::min());
  check_type(TokenType::int64, std::numeric_limits<std::int64_t>::max());
}

CASE("segments outside their buffer are found without overflow") {
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  const std::uint8_t tokens[4] = {};
  const zephon::TokenBuffer buffer{tokens, nullptr, 4, TokenType::uint8};
  const auto check_one = [&](std::int32_t which, std::int64_t start, std::int64_t length) {
    const std::int64_t splits[] = {0, 1};
    const zephon::SegmentTable table{&length, splits, 1, 1};
    const zephon::SegmentSources sources{&buffer, &which, &start, nullptr, 1};
    return zephon::check_sources(table, sources).fault;
  };
  CHECK_EQ(check_one(0, 3, 1) == SourceFault::none, true);
  CHECK_EQ(check_one(1, 0, 1) == SourceFault::buffer, true);
  CHECK_EQ(check_one(-1, 0, 1) == SourceFault::buffer, true);
  CHECK_EQ(check_one(0, -1, 1) == SourceFault::bounds, true);
  CHECK_EQ(check_one(0, 4, 1) == SourceFault::bounds, true);
  CHECK_EQ(check_one(0, 1, huge) == SourceFault::bounds, true);
  CHECK_EQ(check_one(0, huge, huge) == SourceFault::bounds, true);
}

CHECK_MAIN
