#include <vector>

#include "check.hpp"
#include "zephon/places.hpp"

namespace {

using Longs = std::vector<std::int64_t>;

struct Table {
  std::vector<Longs> start, length;
  std::vector<zephon::ShardPlaces> shards;
  Longs end, first_shard{0};

  // `counts[k]` are the documents of the shards of source k.
  explicit Table(const std::vector<Longs>& counts) {
    for (const Longs& source : counts) {
      std::int64_t documents = 0;
      for (const std::int64_t count : source) {
        Longs starts, lengths;
        for (std::int64_t i = 0; i < count; ++i) {
          starts.push_back(10 * i);
          lengths.push_back(i % 11);
        }
        start.push_back(starts);
        length.push_back(lengths);
        documents += count;
        end.push_back(documents);
      }
      first_shard.push_back(static_cast<std::int64_t>(end.size()));
    }
    for (std::size_t s = 0; s < start.size(); ++s) {
      const auto count = static_cast<std::int64_t>(start[s].size());
      shards.push_back({start[s].data(), length[s].data(), count, 10 * count});
    }
  }

  [[nodiscard]] zephon::TokenPlaces places() const { return {shards, end, first_shard}; }
};

}  // namespace

CASE("every document of every source is found in its shard") {
  const Table table(std::vector<Longs>{{3, 0, 40, 1}, {7}, {0, 2}});
  std::vector<std::int32_t> sources, buffer(53);
  Longs rows, start(53), length(53);
  std::vector<std::int32_t> expected;
  for (std::int32_t k = 0; k < 3; ++k) {
    const auto last = static_cast<std::size_t>(table.first_shard[static_cast<std::size_t>(k) + 1]);
    for (std::int64_t row = 0; row < table.end[last - 1]; ++row) {
      sources.push_back(k);
      rows.push_back(row);
    }
  }
  for (std::size_t s = 0; s < table.start.size(); ++s) {
    expected.insert(expected.end(), table.start[s].size(), static_cast<std::int32_t>(s));
  }
  const auto check = zephon::find_places(table.places(), sources, rows, buffer, start, length);
  CHECK_EQ(check.fault == zephon::PlaceFault::none, true);
  CHECK_EQ(buffer, expected);
  CHECK_EQ(start[3 + 20], 200);
  CHECK_EQ(length[3 + 20], 9);
}

CASE("the first fault ends the search, what lies before it is written") {
  const Table table(std::vector<Longs>{{30}});
  std::vector<std::int32_t> sources(20, 0), buffer(20, -1);
  Longs rows(20, 4), start(20, -1), length(20, -1);
  rows[18] = 30;
  sources[19] = 1;
  const auto check = zephon::find_places(table.places(), sources, rows, buffer, start, length);
  CHECK_EQ(check.fault == zephon::PlaceFault::row, true);
  CHECK_EQ(check.index, 18u);
  CHECK_EQ(start[17], 40);
  CHECK_EQ(start[18], -1);
}

CASE("a document that leaves its buffer is a fault") {
  Table table(std::vector<Longs>{{4}});
  table.length[0][2] = 21;
  std::vector<std::int32_t> sources{0, 0}, buffer(2);
  Longs rows{1, 2}, start(2), length(2);
  const auto check = zephon::find_places(table.places(), sources, rows, buffer, start, length);
  CHECK_EQ(check.fault == zephon::PlaceFault::document, true);
  CHECK_EQ(check.index, 1u);
}

CHECK_MAIN
