#include "model/weights/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/embedding/embedding.h"
#include "model/test_checkpoint.h"
#include "model/test_weights.h"

namespace octavo::model {
namespace {

using kernels::WeightFormat;

/// OCP 8-bit Floating Point Specification: 2^(e - 7) (1 + m / 8), without the one below 2^-6.
double e4m3_value(int code) {
  const int e = code >> 3 & 15, m = code & 7;
  const double value = e == 0 ? std::ldexp(m, -9) : std::ldexp(8 + m, e - 10);
  return code & 0x80 ? -value : value;
}

TEST(Quantise, E4m3TakesTheNearestCode) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7f) == 0x7f) continue;  // NaN
    const auto value = float(e4m3_value(code));
    EXPECT_EQ(e4m3_from_float(value), code) << value;
    if ((code & 0x7f) == 0x7e) continue;
    // Between two neighbours, the one with the even mantissa at the middle.
    const auto next = float(e4m3_value(code + 1));
    const float middle = (value + next) / 2;
    EXPECT_EQ(e4m3_from_float(middle), code % 2 == 0 ? code : code + 1) << middle;
    EXPECT_EQ(e4m3_from_float(std::nextafter(middle, value)), code) << middle;
    EXPECT_EQ(e4m3_from_float(std::nextafter(middle, next)), code + 1) << middle;
  }
  EXPECT_EQ(e4m3_from_float(1e9f), 0x7e);
  EXPECT_EQ(e4m3_from_float(-1e9f), 0xfe);
}

/// The values that `tensor`, rounded to `format`, has in the kernels.
std::vector<float> rounded(const std::vector<float>& values, int64_t num_cols,
                           WeightFormat format) {
  TestKernels kernels;
  SourceTensor tensor;
  tensor.data = reinterpret_cast<const std::byte*>(values.data());
  const int64_t num_rows = int64_t(values.size()) / num_cols;
  const auto packed = quantise(tensor, num_rows, num_cols, format, "m", kernels.pool).value();
  const kernels::WeightPart part{packed.data, packed.format, num_rows, {}};
  const auto matrix = kernels::PackedMatrix::create(kernels.ctx, {&part, 1}, num_cols, format,
                                                    kernels::Arithmetic::kF32)
                          .value();
  std::vector<int32_t> ids(static_cast<size_t>(num_rows));
  for (int32_t i = 0; i < num_rows; ++i) ids[size_t(i)] = i;
  std::vector<float> out(values.size());
  kernels::embedding(kernels.ctx, out.data(), ids.data(), num_rows, matrix);
  return out;
}

TEST(Quantise, EveryValueIsWithinHalfAStepOfItsFormat) {
  constexpr int64_t kCols = 128;
  const std::vector<float> values = test_values(3, 40 * kCols, 2.0f, 0.1f);
  const auto step = [&](WeightFormat format, size_t i) -> double {
    const size_t block = format >= WeightFormat::kF8G32 ? kCols : 32;
    const auto begin = values.begin() + std::ptrdiff_t(i / block * block);
    const auto [least, most] = std::minmax_element(begin, begin + std::ptrdiff_t(block));
    const double largest = std::max(std::abs(*least), std::abs(*most));
    // Half a step, and what the rounding of d and m to f16 moves.
    if (format == WeightFormat::kQ8_0) return largest / 127 * 0.51 + largest * 0x1p-11;
    if (format == WeightFormat::kQ4_1) return (*most - *least) / 15 * 0.51 + largest * 0x1p-10;
    return std::max(double(std::abs(values[i])) / 16, std::ldexp(largest / 448, -10)) * 1.001;
  };
  for (const WeightFormat format :
       {WeightFormat::kQ8_0, WeightFormat::kQ4_1, WeightFormat::kF8G32, WeightFormat::kF8G128}) {
    const std::vector<float> got = rounded(values, kCols, format);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(got[i], values[i], step(format, i)) << kernels::name_of(format) << " " << i;
    }
  }
}

TEST(Quantise, ZerosAndTinyNumbersStaySmall) {
  std::vector<float> values(64, 0.0f);
  for (size_t i = 32; i < 64; ++i) values[i] = 1e-40f;
  for (const WeightFormat format :
       {WeightFormat::kQ8_0, WeightFormat::kQ4_1, WeightFormat::kF8G32}) {
    for (const float value : rounded(values, 32, format)) EXPECT_EQ(value, 0.0f);
  }
}

TEST(Quantise, WhatHasNoCodeIsAnErrorThatNamesTheModule) {
  TestKernels kernels;
  for (const float bad :
       {std::numeric_limits<float>::infinity(), 1e38f, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values(64, 1.0f);
    values[40] = bad;
    SourceTensor tensor;
    tensor.data = reinterpret_cast<const std::byte*>(values.data());
    for (const WeightFormat format :
         {WeightFormat::kQ8_0, WeightFormat::kQ4_1, WeightFormat::kF8G32}) {
      const auto result = quantise(tensor, 2, 32, format, "model.layers.1.mlp", kernels.pool);
      if (format == WeightFormat::kF8G32 && bad == 1e38f) {
        EXPECT_TRUE(result.ok());
        continue;
      }
      ASSERT_FALSE(result.ok()) << kernels::name_of(format) << " " << bad;
      EXPECT_THAT(result.error().message, testing::HasSubstr("model.layers.1.mlp"));
    }
  }
}

}  // namespace
}  // namespace octavo::model
