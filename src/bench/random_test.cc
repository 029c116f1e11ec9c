// The generators against what Python's random and numpy gave (tests/tools/make_bench_vectors.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "bench/numpy_random.h"
#include "bench/python_random.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::json;

Json vectors(const char* kind) {
  std::ifstream file(OCTAVO_SOURCE_DIR "/tests/golden/bench/generators.json");
  return Json::parse(file).at(kind);
}

TEST(PythonRandom, GivesPythonsValues) {
  int checked = 0;
  const Json all = vectors("python");
  for (const auto& [seed, expected] : all.items()) {
    SCOPED_TRACE("seed " + seed);
    PythonRandom random(std::stoull(seed));
    for (const double value : expected["random"]) EXPECT_EQ(random.random(), value);
    for (const Json& row : expected["below"]) {
      for (const uint64_t value : row[1]) EXPECT_EQ(random.below(row[0]), value);
    }
    std::vector<int> items(20);
    std::iota(items.begin(), items.end(), 0);
    random.shuffle(items);
    EXPECT_EQ(items, expected["shuffle"].get<std::vector<int>>());
    for (const uint64_t value : expected["choice"]) EXPECT_EQ(random.below(7), value);
    EXPECT_EQ(random.choices(1000, 6), expected["choices"].get<std::vector<uint64_t>>());
    ++checked;
  }
  EXPECT_EQ(checked, 4);
}

TEST(NumpyGenerator, GivesNumpysIntegers) {
  int checked = 0;
  const Json all = vectors("generator");
  for (const auto& [seed, rows] : all.items()) {
    SCOPED_TRACE("seed " + seed);
    NumpyGenerator random(std::stoull(seed));
    for (const Json& row : rows) {
      EXPECT_EQ(random.integers(row[0], row[1], 5), row[2].get<std::vector<int64_t>>());
      ++checked;
    }
  }
  EXPECT_EQ(checked, 28);
}

TEST(NumpyGenerator, GivesNumpysPermutations) {
  int checked = 0;
  const Json all = vectors("permutation");
  for (const auto& [seed, rows] : all.items()) {
    SCOPED_TRACE("seed " + seed);
    NumpyGenerator random(std::stoull(seed));
    for (const Json& row : rows) {
      EXPECT_EQ(random.permutation(row.size()), row.get<std::vector<int64_t>>());
      ++checked;
    }
  }
  EXPECT_EQ(checked, 12);
}

TEST(NumpyLegacy, GivesNumpysValues) {
  int checked = 0;
  const Json all = vectors("legacy");
  for (const auto& [seed, expected] : all.items()) {
    SCOPED_TRACE("seed " + seed);
    NumpyLegacy random(uint32_t(std::stoull(seed)));
    for (const Json& row : expected["randint"]) {
      EXPECT_EQ(random.randint(row[0], row[1], 5), row[2].get<std::vector<int64_t>>());
    }
    for (const Json& row : expected["gamma"]) {
      SCOPED_TRACE(row[0].dump());
      for (const double value : row[2]) {
        // The same formula; libm may differ in the last bit.
        EXPECT_NEAR(random.gamma(row[0], row[1]), value, 1e-14 * std::abs(value));
      }
    }
    for (const Json& row : expected["sample"]) {
      EXPECT_EQ(random.sample_without_replacement(row[0], row[1]),
                row[2].get<std::vector<int64_t>>());
    }
    ++checked;
  }
  EXPECT_EQ(checked, 4);
}

}  // namespace
}  // namespace octavo::bench
