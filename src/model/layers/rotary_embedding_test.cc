#include "model/layers/rotary_embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/test_checkpoint.h"

// Expected frequencies: numpy in float32, from the formulas of transformers' modeling_rope_utils.

namespace octavo::model {
namespace {

void expect_frequencies(const RotaryEmbedding& rope, const std::vector<float>& expected) {
  ASSERT_EQ(rope.inv_freq().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    // Two roundings of f32 may differ: pow and the last product.
    EXPECT_NEAR(rope.inv_freq()[i] / expected[i], 1.0, 2.5e-7) << "frequency " << i;
  }
}

TEST(RotaryEmbedding, DefaultIsAGeometricSeries) {
  const RotaryEmbedding rope(RopeConfig{}, 16);
  expect_frequencies(rope, {1, 0.316227764, 0.100000001, 0.0316227786, 0.00999999978, 0.00316227786,
                            0.00100000005, 0.000316227786});
  EXPECT_EQ(rope.attention_factor(), 1.0f);
}

TEST(RotaryEmbedding, LinearDividesEveryFrequency) {
  RopeConfig config;
  config.kind = RopeKind::kLinear;
  config.factor = 4.0;
  expect_frequencies(RotaryEmbedding(config, 16),
                     {0.25, 0.079056941, 0.0250000004, 0.00790569466, 0.00249999994, 0.000790569466,
                      0.000250000012, 7.90569466e-05});
}

TEST(RotaryEmbedding, Llama3KeepsFastAndDividesSlowFrequencies) {
  RopeConfig config;
  config.kind = RopeKind::kLlama3;
  config.theta = 500000.0;
  config.factor = 8.0;
  config.original_max_position_embeddings = 8192;
  expect_frequencies(
      RotaryEmbedding(config, 32),
      {1, 0.440366626, 0.193922758, 0.0853971019, 0.0376060307, 0.0165604409, 0.00729266508,
       0.00321144611, 0.000524846022, 7.78465546e-05, 3.42810235e-05, 1.50962178e-05,
       6.64787058e-06, 2.92749974e-06, 1.28917316e-06, 5.6770881e-07});
}

TEST(RotaryEmbedding, YarnRampsBetweenKeptAndInterpolated) {
  RopeConfig config;
  config.kind = RopeKind::kYarn;
  config.theta = 1000000.0;
  config.factor = 4.0;
  config.original_max_position_embeddings = 32768;
  const RotaryEmbedding rope(config, 32);
  expect_frequencies(
      rope, {1, 0.421696514, 0.177827939, 0.0749894157, 0.0316227786, 0.0133352149, 0.00477990136,
             0.00165996165, 0.000549999997, 0.000168678613, 4.44569851e-05, 1.87473561e-05,
             7.90569356e-06, 3.33380399e-06, 1.40585337e-06, 5.92843435e-07});
  EXPECT_FLOAT_EQ(rope.attention_factor(), 1.138629436111989f);
}

TEST(RotaryEmbedding, YarnWithoutTruncationUsesFractionalDimensions) {
  RopeConfig config;
  config.kind = RopeKind::kYarn;
  config.factor = 8.0;
  config.original_max_position_embeddings = 256;
  config.beta_fast = 16.0;
  config.beta_slow = 2.0;
  config.truncate = false;
  expect_frequencies(RotaryEmbedding(config, 16),
                     {1, 0.28740859, 0.0424417965, 0.00395284733, 0.00124999997, 0.000395284733,
                      0.000125000006, 3.95284733e-05});
}

TEST(RotaryEmbedding, YarnTakesItsAttentionFactorFromTheFileOrFromMscale) {
  RopeConfig config;
  config.kind = RopeKind::kYarn;
  config.factor = 40.0;
  config.original_max_position_embeddings = 4096;
  config.mscale = 0.707;
  EXPECT_FLOAT_EQ(RotaryEmbedding(config, 64).attention_factor(), 1.3688879f)
      << "one mscale alone counts for nothing";
  config.mscale_all_dim = 1.0;
  EXPECT_FLOAT_EQ(RotaryEmbedding(config, 64).attention_factor(), 0.9210423553163399f);
  config.attention_factor = 0.75;
  EXPECT_FLOAT_EQ(RotaryEmbedding(config, 64).attention_factor(), 0.75f);
}

TEST(RotaryEmbedding, YarnRangeOfOneDimensionDoesNotDivideByZero) {
  RopeConfig config;
  config.kind = RopeKind::kYarn;
  config.factor = 4.0;
  config.original_max_position_embeddings = 1;
  const RotaryEmbedding rope(config, 16);
  for (const float freq : rope.inv_freq()) EXPECT_TRUE(std::isfinite(freq));
}

TEST(RotaryEmbedding, FreqFactorsOfGgufDivide) {
  RopeConfig config;
  config.freq_factors = {1, 1, 1, 1, 2, 2, 8, 8};
  expect_frequencies(RotaryEmbedding(config, 16),
                     {1, 0.316227764, 0.100000001, 0.0316227786, 0.00999999978 / 2,
                      0.00316227786 / 2, 0.00100000005 / 8, 0.000316227786 / 8});
}

TEST(RotaryEmbedding, RotatesHalvesOfEveryHead) {
  TestKernels kernels;
  RopeConfig config;
  const RotaryEmbedding rope(config, 4);
  const std::vector<int32_t> positions = {0, 3};
  std::vector<float> cos_sin(2 * 4);
  rope.prepare(kernels.ctx, cos_sin.data(), positions.data(), 2);
  // Two tokens of two heads of 4, rows 10 apart; what lies behind the heads must stay.
  std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8, -1, -2, 1, 2, 3, 4, 5, 6, 7, 8, -1, -2};
  const std::vector<float> before = x;
  rope.rotate(kernels.ctx, x.data(), 10, cos_sin.data(), 2, 2);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(x[i], before[i]) << "position 0 turns nothing";
  for (size_t head = 0; head < 2; ++head) {
    for (size_t j = 0; j < 2; ++j) {
      const double angle = 3.0 * std::pow(10000.0, -double(j) / 2.0);
      const double a = before[10 + head * 4 + j], b = before[10 + head * 4 + j + 2];
      EXPECT_NEAR(x[10 + head * 4 + j], a * std::cos(angle) - b * std::sin(angle), 1e-5);
      EXPECT_NEAR(x[10 + head * 4 + j + 2], b * std::cos(angle) + a * std::sin(angle), 1e-5);
    }
  }
  EXPECT_EQ(x[18], -1);
  EXPECT_EQ(x[19], -2);
}

}  // namespace
}  // namespace octavo::model
