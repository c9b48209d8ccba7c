#include <array>
#include <limits>
#include <numeric>
#include <vector>

#include "check.hpp"
#include "zephon/sample_gather.hpp"

namespace {

using Values = std::vector<std::int64_t>;
using zephon::SampleFault;

constexpr std::int64_t kLength = 4;

// Sequences 1 2 3 9 | 4 9 | (none) | 5 6 7 8 9, read in the order 3 0 2 1: two
// whole samples of 4 + 1 tokens and a shorter one.
struct Index {
  std::vector<std::uint16_t> tokens{1, 2, 3, 9, 4, 9, 5, 6, 7, 8, 9};
  Values starts{0, 4, 6, 6};
  std::vector<std::int32_t> lengths{4, 2, 0, 5};
  std::vector<std::int32_t> documents{3, 0, 2, 1};
  Values rows{0, 0, 0, 4, 1, 3, 3, 1};
  Values shuffle{0, 1, 2};

  zephon::SampleTables tables() const {
    return {tokens.data(),
            static_cast<std::int64_t>(tokens.size()),
            zephon::TokenType::uint16,
            starts.data(),
            lengths.data(),
            static_cast<std::int64_t>(starts.size()),
            documents.data(),
            static_cast<std::int64_t>(documents.size()),
            rows.data(),
            true,
            shuffle.data(),
            true,
            static_cast<std::int64_t>(shuffle.size())};
  }
};

struct Batch {
  explicit Batch(std::size_t rows)
      : tokens(rows * kLength, -7),
        labels(tokens),
        positions(tokens),
        loss(rows * kLength, -7.0F),
        ends(rows * kLength, 7) {}

  zephon::SampleRows rows() {
    return {tokens.data(), labels.data(), loss.data(), positions.data(), ends.data()};
  }

  Values tokens, labels, positions;
  std::vector<float> loss;
  std::vector<std::uint8_t> ends;
};

constexpr zephon::SampleRules kRules{kLength, true, false, 0, true, true, 9};

zephon::GatherCheck gather(const Index& index, Batch& batch, const Values& which) {
  Values rows(which.size());
  std::iota(rows.begin(), rows.end(), 0);
  return zephon::gather_samples(index.tables(), kRules, which.data(), rows.data(),
                                static_cast<std::int64_t>(which.size()), batch.rows());
}

// The fault of reading sample 0 of an index.
SampleFault fault(const Index& index) {
  Batch batch(1);
  return gather(index, batch, {0}).fault;
}

}  // namespace

CASE("samples cross sequences, restart behind their ends and are padded") {
  Batch batch(3);
  CHECK_EQ(static_cast<int>(gather(Index{}, batch, {0, 1, 2}).fault), 0);
  CHECK_EQ(batch.tokens, (Values{5, 6, 7, 8, 9, 1, 2, 3, 9, 4, 9, 0}));
  CHECK_EQ(batch.labels, (Values{6, 7, 8, 9, 1, 2, 3, 9, 4, 9, 0, 0}));
  CHECK_EQ(batch.positions, (Values{0, 1, 2, 3, 0, 0, 1, 2, 0, 0, 1, 0}));
  CHECK_EQ(Values(batch.loss.begin(), batch.loss.end()),
           (Values{1, 1, 1, 1, 0, 1, 1, 1, 0, 1, 0, 0}));
  CHECK_EQ(Values(batch.ends.begin(), batch.ends.end()),
           (Values{0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0}));
}

CASE("an index that refers to what is not there is a fault and is not followed") {
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{4}, huge, -huge}) {
    Index index;
    index.shuffle[0] = wrong;
    CHECK_EQ(static_cast<int>(fault(index)), static_cast<int>(SampleFault::shuffle));
    index = Index{};
    index.rows[2] = wrong;
    CHECK_EQ(static_cast<int>(fault(index)), static_cast<int>(SampleFault::row));
  }
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{6}, huge, -huge}) {
    for (const std::size_t at : {std::size_t{1}, std::size_t{3}}) {
      Index index;
      index.rows[at] = wrong;
      CHECK_EQ(static_cast<int>(fault(index)), static_cast<int>(SampleFault::offset));
    }
    Index index;
    index.starts[3] = wrong == 6 ? 7 : wrong;
    CHECK_EQ(static_cast<int>(fault(index)), static_cast<int>(SampleFault::tokens));
  }
  Index index;
  index.documents[0] = 4;
  CHECK_EQ(static_cast<int>(fault(index)), static_cast<int>(SampleFault::document));
  index = Index{};
  index.rows = {0, 0, 1, 3, 1, 3, 3, 1};
  CHECK_EQ(static_cast<int>(fault(index)), static_cast<int>(SampleFault::row));
}

CHECK_MAIN
