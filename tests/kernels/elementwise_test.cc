#include <cmath>

#include "kernels/embedding/embedding.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"
#include "kernels/silu_and_mul/silu_and_mul.h"
#include "support.h"

namespace octavo::kernels {
namespace {

class RmsNorm : public WithVariant {};
class SiluAndMul : public WithVariant {};
class Rope : public WithVariant {};
INSTANTIATE_TEST_SUITE_P(Variant, RmsNorm, testing::ValuesIn(variants_without_bytes()),
                         variant_name);
INSTANTIATE_TEST_SUITE_P(Variant, SiluAndMul, testing::ValuesIn(variants_without_bytes()),
                         variant_name);
INSTANTIATE_TEST_SUITE_P(Variant, Rope, testing::ValuesIn(variants_without_bytes()), variant_name);

/// Sizes around every boundary of 16 and 64 lanes, and real ones.
std::vector<int64_t> sizes() {
  std::vector<int64_t> out;
  for (int64_t n = 1; n <= 130; ++n) out.push_back(n);
  out.insert(out.end(), {576, 1536, 1537});
  return out;
}

TEST_P(RmsNorm, IsNearTheReferenceAlsoInPlace) {
  Machine machine(2);
  Numbers numbers(1);
  constexpr int64_t kRows = 5;
  for (const int64_t cols : sizes()) {
    const int64_t stride = cols + 3;
    Misaligned x(numbers.values(static_cast<size_t>(kRows * stride), 3.0f));
    const Misaligned weight(numbers.values(static_cast<size_t>(cols)));
    Misaligned out(static_cast<size_t>(kRows * stride), 9.0f);
    const float eps = 1e-5f;
    rms_norm(machine.context(), out.data(), stride, x.data(), stride, kRows, cols, weight.data(),
             eps);
    for (int64_t r = 0; r < kRows; ++r) {
      double sum = 0;
      for (int64_t i = 0; i < cols; ++i) sum += std::pow(x.data()[r * stride + i], 2.0);
      const double factor = 1 / std::sqrt(sum / static_cast<double>(cols) + eps);
      for (int64_t i = 0; i < cols; ++i) {
        const double expected = x.data()[r * stride + i] * factor * weight.data()[i];
        // A chain of at most cols / 16 + 8 roundings of positive terms, halved by the root, and
        // four more behind it.
        const double tolerance =
            std::abs(expected) * (static_cast<double>(cols) / 16 + 12) * 0x1p-23;
        ASSERT_NEAR(out.data()[r * stride + i], expected, tolerance + 1e-30);
      }
      ASSERT_EQ(out.data()[r * stride + cols], 9.0f);
    }
    rms_norm(machine.context(), x.data(), stride, x.data(), stride, kRows, cols, weight.data(),
             eps);
    for (int64_t r = 0; r < kRows; ++r) {
      ASSERT_EQ(std::memcmp(x.data() + r * stride, out.data() + r * stride,
                            static_cast<size_t>(cols) * 4),
                0);
    }
  }
}

TEST_P(SiluAndMul, IsNearTheReferenceOverTheWholeRange) {
  Machine machine(2);
  Numbers numbers(1);
  for (const int64_t size : sizes()) {
    constexpr int64_t kTokens = 3;
    Misaligned x(numbers.values(static_cast<size_t>(kTokens * 2 * size), 30.0f));
    if (size > 100) {
      const float extremes[] = {0.0f, -0.0f, 100.0f, -100.0f, 3e38f, -3e38f, 1e-40f, -87.5f};
      std::copy(std::begin(extremes), std::end(extremes), x.data());
    }
    Misaligned out(static_cast<size_t>(kTokens * size));
    for (int64_t t = 0; t < kTokens; ++t) {
      const float* const gate = x.data() + t * 2 * size;
      silu_and_mul(out.data() + t * size, gate, gate + size, size);
    }
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int64_t i = 0; i < size; ++i) {
        const double gate = x.data()[t * 2 * size + i];
        const double up = x.data()[t * 2 * size + size + i];
        const double expected = gate / (1 + std::exp(-gate)) * up;
        // exp to 3 ulp, then a sum, a reciprocal and two products. Below -87 the exponential is
        // held at e^87: the true value is smaller than |gate * up| * e^-87.
        const double tolerance =
            std::abs(expected) * 8 * 0x1p-23 + std::abs(gate * up) * 1.7e-38 + 1e-37;
        if (std::abs(expected) > 3e38) continue;  // no f32
        ASSERT_NEAR(out.data()[t * size + i], expected, tolerance) << gate << " " << up;
      }
    }
  }
}

TEST_P(SiluAndMul, PassesNanOnAndInfinityThrough) {
  Machine machine(1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const float x[] = {nan, inf, 1.0f, 1.0f, 1.0f, nan};
  float out[3];
  silu_and_mul(out, x, x + 3, 3);
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], inf);
  EXPECT_TRUE(std::isnan(out[2]));
}

TEST_P(Rope, RotatesHalvesAndLeavesTheRestAlone) {
  Machine machine(2);
  Numbers numbers(1);
  constexpr int64_t kTokens = 7, kHeads = 3;
  for (const int64_t num_freqs : {1, 4, 15, 16, 17, 32, 64}) {
    for (const int64_t rest : {0, 6}) {
      const int64_t head_dim = 2 * num_freqs + rest;
      const int64_t stride = kHeads * head_dim + 5;
      Misaligned x(numbers.values(static_cast<size_t>(kTokens * stride)));
      const std::vector<float> before = x.copy();
      std::vector<float> inv_freq;
      for (int64_t j = 0; j < num_freqs; ++j) {
        inv_freq.push_back(static_cast<float>(
            std::pow(10000.0, -static_cast<double>(j) / static_cast<double>(num_freqs))));
      }
      const std::vector<int32_t> positions = {0, 1, 2, 100, 5000, 8191, 3};
      const float scale = 1.25f;
      Misaligned cos_sin(static_cast<size_t>(kTokens * 2 * num_freqs));
      rope_cos_sin(machine.context(), cos_sin.data(), positions.data(), kTokens, inv_freq.data(),
                   num_freqs, scale);
      rope(machine.context(), x.data(), stride, cos_sin.data(), kTokens, kHeads, head_dim,
           num_freqs);
      for (int64_t t = 0; t < kTokens; ++t) {
        for (int64_t h = 0; h < kHeads; ++h) {
          const float* was = &before[static_cast<size_t>(t * stride + h * head_dim)];
          const float* is = x.data() + t * stride + h * head_dim;
          for (int64_t j = 0; j < num_freqs; ++j) {
            const float angle = static_cast<float>(positions[static_cast<size_t>(t)]) *
                                inv_freq[static_cast<size_t>(j)];
            const double c = std::cos(static_cast<double>(angle)) * scale;
            const double s = std::sin(static_cast<double>(angle)) * scale;
            const double a = was[j];
            const double b = was[j + num_freqs];
            // Two roundings of cos and sin, one per product and sum.
            const double tolerance = 4 * 0x1p-23 * (std::abs(a) + std::abs(b));
            ASSERT_NEAR(is[j], a * c - b * s, tolerance);
            ASSERT_NEAR(is[j + num_freqs], b * c + a * s, tolerance);
          }
          for (int64_t i = 2 * num_freqs; i < head_dim; ++i) ASSERT_EQ(is[i], was[i]);
        }
      }
    }
  }
}

TEST(Dispatch, NamesWhatIsChosenAndRefusesWhatTheCpuLacks) {
  EXPECT_EQ(current_isa(), best_isa());
  EXPECT_NE(describe_kernels().find("linear=" + std::string(name_of(best_isa()))),
            std::string::npos);
  if (best_isa() < Isa::kAvx512) {
    EXPECT_EQ(set_isa(Isa::kAvx512).error().code, Code::kUnsupported);
  }
}

}  // namespace
}  // namespace octavo::kernels
