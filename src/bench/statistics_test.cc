#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/random.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::json;

TEST(Statistics, AgreeWithNumpy) {
  std::ifstream file(OCTAVO_SOURCE_DIR "/tests/golden/bench/percentiles.json");
  const Json kits = Json::parse(file);
  ASSERT_EQ(kits.size(), 6u);
  for (const Json& kit : kits) {
    std::vector<double> points;
    for (const Json& row : kit["percentiles"]) points.push_back(row[0]);
    const Distribution got = describe(kit["values"].get<std::vector<double>>(), points);
    EXPECT_NEAR(got.mean, kit["mean"].get<double>(), 1e-14);
    EXPECT_NEAR(got.std, kit["std"].get<double>(), 1e-14);
    EXPECT_DOUBLE_EQ(got.median, kit["median"].get<double>());
    for (size_t i = 0; i < points.size(); ++i) {
      EXPECT_DOUBLE_EQ(got.percentiles[i].second, kit["percentiles"][i][1].get<double>())
          << points[i];
    }
  }
}

TEST(Statistics, PercentilesAreMonotoneBoundedAndHitTheOrderStatistics) {
  SplitMix64 random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> values(1 + random.below(50));
    for (double& value : values) value = double(random.below(20)) + random.uniform();
    std::sort(values.begin(), values.end());
    double last = values.front();
    for (int p = 0; p <= 1000; ++p) {
      const double value = percentile_of_sorted(values, p / 10.0);
      EXPECT_GE(value, last);
      EXPECT_LE(value, values.back());
      last = value;
    }
    const size_t middle = values.size() / 2;
    if (values.size() > 1) {
      EXPECT_NEAR(percentile_of_sorted(values, 100.0 * double(middle) / double(values.size() - 1)),
                  values[middle], 1e-9);
    }
    EXPECT_EQ(percentile_of_sorted(values, 100), values.back());
  }
}

TEST(Statistics, NothingGivesZero) {
  const Distribution empty = describe({}, std::vector<double>{50, 99.9});
  EXPECT_EQ(empty.mean, 0);
  EXPECT_EQ(empty.median, 0);
  EXPECT_EQ(empty.std, 0);
  EXPECT_EQ(empty.percentiles[1].second, 0);
}

}  // namespace
}  // namespace octavo::bench
