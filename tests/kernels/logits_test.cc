#include "kernels/logits/logits.h"

#include "support.h"

namespace octavo::kernels {
namespace {

class Logits : public WithVariant {};
INSTANTIATE_TEST_SUITE_P(Variant, Logits, testing::ValuesIn(variants_without_bytes()),
                         variant_name);

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> random_row(uint64_t seed, int64_t size, float scale) {
  return Numbers(seed).values(static_cast<size_t>(size), scale);
}

TEST_P(Logits, ScanFindsTheLowestOfEqualMaximaAtEveryLength) {
  for (size_t size = 1; size < 70; ++size) {
    std::vector<float> row(size, -1.0f);
    row[size / 2] = 2.0f;
    row[size - 1] = 2.0f;
    const LogitsScan scan = scan_logits(row);
    EXPECT_EQ(scan.argmax, static_cast<int32_t>(size / 2));
    EXPECT_EQ(scan.max, 2.0f);
    EXPECT_TRUE(scan.is_valid);
  }
}

TEST_P(Logits, ScanRefusesWhatIsNoDistribution) {
  for (const size_t at : {size_t{0}, size_t{20}, size_t{36}}) {
    std::vector<float> row(37, 0.0f);
    row[at] = std::nanf("");
    EXPECT_FALSE(scan_logits(row).is_valid);
    row[at] = kInf;
    EXPECT_FALSE(scan_logits(row).is_valid);
    row[at] = -kInf;
    EXPECT_TRUE(scan_logits(row).is_valid);
  }
  EXPECT_FALSE(scan_logits(std::vector<float>(5, -kInf)).is_valid);
  EXPECT_FALSE(scan_logits(std::vector<float>(35, -kInf)).is_valid);
}

TEST_P(Logits, ExponentialsAgreeWithDoublePrecision) {
  for (const int64_t size : {1, 15, 16, 127, 128, 129, 5000}) {
    for (const float inverse_temperature : {0.5f, 1.0f, 3.0f}) {
      std::vector<float> row = random_row(static_cast<uint64_t>(size), size, 20.0f);
      row[static_cast<size_t>(size) / 2] = -kInf;
      const float max = *std::max_element(row.begin(), row.end());
      if (max == -kInf) continue;
      std::vector<float> weights(row.size());
      const double sum = exp_logits(row, max, inverse_temperature, weights);
      double expected_sum = 0;
      for (size_t i = 0; i < row.size(); ++i) {
        const double x = (static_cast<double>(row[i]) - max) * inverse_temperature;
        const double expected = x < -87 ? 0 : std::exp(x);
        // The argument is rounded three times, relative to its size.
        ASSERT_NEAR(weights[i], expected, expected * (4 - 3 * std::max(x, -87.0)) * 0x1p-24 + 2e-38)
            << x;
        expected_sum += expected;
      }
      EXPECT_NEAR(sum / expected_sum, 1.0, 1e-6);
      if (inverse_temperature == 1.0f) {
        EXPECT_EQ(sum_exp_logits(row, max), sum);
      }
    }
  }
}

TEST_P(Logits, CountsAndNamesWhatIsAtLeastTheThreshold) {
  for (int64_t size = 1; size < 100; ++size) {
    std::vector<float> row = random_row(static_cast<uint64_t>(size), size, 4.0f);
    for (float& x : row) x = std::round(x);
    row.back() = std::nanf("");
    std::vector<int32_t> expected;
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i] >= 1.0f) expected.push_back(static_cast<int32_t>(i));
    }
    EXPECT_EQ(count_at_least(row, 1.0f), static_cast<int32_t>(expected.size()));
    std::vector<int32_t> ids(row.size());
    const int64_t found = ids_at_least(row, 1.0f, ids);
    ASSERT_EQ(found, static_cast<int64_t>(expected.size()));
    ids.resize(expected.size());
    EXPECT_EQ(ids, expected);
    std::vector<int32_t> few(std::min<size_t>(3, expected.size()));
    EXPECT_EQ(ids_at_least(row, 1.0f, few), static_cast<int64_t>(few.size()));
    EXPECT_TRUE(std::equal(few.begin(), few.end(), expected.begin()));
  }
}

TEST_P(Logits, BlockMaximaAreThoseOfEverySixtyFour) {
  for (const int64_t size : {1, 63, 64, 65, 127, 128, 200, 1000}) {
    const std::vector<float> row = random_row(static_cast<uint64_t>(size), size, 9.0f);
    std::vector<float> maxima(static_cast<size_t>((size + 63) / 64));
    block_maxima(row, maxima);
    for (size_t b = 0; b < maxima.size(); ++b) {
      const auto begin = row.begin() + static_cast<ptrdiff_t>(64 * b);
      const auto end = b + 1 == maxima.size() ? row.end() : begin + 64;
      EXPECT_EQ(maxima[b], *std::max_element(begin, end));
    }
  }
}

}  // namespace
}  // namespace octavo::kernels
