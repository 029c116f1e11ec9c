#include "bench/resample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace octavo::bench {
namespace {

using Values = std::vector<double>;

TEST(Resample, EqualRunsGiveAPoint) {
  const RatioInterval r = ratio_of_medians(Values{2, 2, 2}, Values{3, 3, 3}, {});
  EXPECT_DOUBLE_EQ(r.ratio, 1.5);
  EXPECT_DOUBLE_EQ(r.low, 1.5);
  EXPECT_DOUBLE_EQ(r.high, 1.5);
}

TEST(Resample, MediansIgnoreAnOutlier) {
  EXPECT_DOUBLE_EQ(ratio_of_medians(Values{1, 1, 1, 1, 100}, Values{2, 2, 2, 2, 0.01}, {}).ratio,
                   2);
}

TEST(Resample, AnIntervalLiesAroundTheRatioAndGrowsWithTheSpread) {
  const RatioInterval narrow = ratio_of_medians(Values{10, 10.1, 9.9, 10.05, 9.95},
                                                Values{11, 11.1, 10.9, 11.05, 10.95}, {});
  EXPECT_LT(narrow.low, 1.1);
  EXPECT_GT(narrow.high, 1.1);
  EXPECT_GE(narrow.low, 10.9 / 10.1);  // no resample leaves the range of the values
  EXPECT_LE(narrow.high, 11.1 / 9.9);
  const RatioInterval wide =
      ratio_of_medians(Values{10, 12, 8, 11, 9}, Values{11, 13, 9, 12, 10}, {});
  EXPECT_GT(wide.high - wide.low, 5 * (narrow.high - narrow.low));
}

TEST(Resample, FiveRoundsGiveTheirWholeRange) {
  // The median of five draws is the least one with 5.8 %: more than the tail of 5 %.
  const RatioInterval r =
      median_of_ratios(Values{1, 1, 1, 1, 1}, Values{1.01, 1.02, 1.03, 1.04, 1.05}, {});
  EXPECT_DOUBLE_EQ(r.ratio, 1.03);
  EXPECT_DOUBLE_EQ(r.low, 1.01);
  EXPECT_DOUBLE_EQ(r.high, 1.05);
}

TEST(Resample, PairsCancelWhatIsCommonToARound) {
  const RatioInterval r = median_of_ratios(Values{1, 2, 3, 4, 5}, Values{2, 4, 6, 8, 10}, {});
  EXPECT_DOUBLE_EQ(r.low, 2);
  EXPECT_DOUBLE_EQ(r.high, 2);
}

TEST(Resample, TheSeedDecidesTheDraws) {
  const Values a = {10, 12, 8, 11, 9, 10.5};
  const Values b = {11, 13, 9, 12, 10, 11.5};
  ResampleOptions options;
  options.num_resamples = 101;
  const RatioInterval one = ratio_of_medians(a, b, options);
  EXPECT_EQ(ratio_of_medians(a, b, options).low, one.low);
  options.seed = 7;
  const RatioInterval other = ratio_of_medians(a, b, options);
  EXPECT_NE(std::pair(other.low, other.high), std::pair(one.low, one.high));
  EXPECT_EQ(other.ratio, one.ratio);
}

}  // namespace
}  // namespace octavo::bench
