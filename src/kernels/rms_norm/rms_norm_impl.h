#pragma once

#include "kernels/rms_norm/rms_norm_params.h"

namespace octavo::kernels {
namespace {

/// Four chains of 16 lanes, added as a tree: short rows and long rows in the same order each time.
template <class S>
float rms_norm_factor(const float* x, int64_t num_cols, float eps) {
  using F = typename S::F;
  F sum[4] = {S::zero(), S::zero(), S::zero(), S::zero()};
  int64_t i = 0;
  for (; i + 64 <= num_cols; i += 64) {
    for (int j = 0; j < 4; ++j) {
      const F v = S::load(x + i + 16 * j);
      sum[j] = S::fma(v, v, sum[j]);
    }
  }
  for (; i + 16 <= num_cols; i += 16) {
    const F v = S::load(x + i);
    sum[0] = S::fma(v, v, sum[0]);
  }
  const int rest = static_cast<int>(num_cols - i);
  if (rest > 0) {
    const F v = S::load_n(x + i, rest);
    sum[1] = S::fma(v, v, sum[1]);
  }
  const float total = S::reduce_add(S::add(S::add(sum[0], sum[1]), S::add(sum[2], sum[3])));
  const float mean = total / static_cast<float>(num_cols) + eps;
  return 1.0f / __builtin_sqrtf(mean);
}

template <class S>
void rms_norm_scale(float* out, const float* x, const float* weight, int64_t num_cols,
                    float factor) {
  using F = typename S::F;
  const F f = S::set1(factor);
  int64_t i = 0;
  for (; i + 16 <= num_cols; i += 16) {
    S::store(out + i, S::mul(S::mul(S::load(x + i), f), S::load(weight + i)));
  }
  if (i < num_cols) {
    const int rest = static_cast<int>(num_cols - i);
    S::store_n(out + i, S::mul(S::mul(S::load_n(x + i, rest), f), S::load_n(weight + i, rest)),
               rest);
  }
}

template <class S>
constexpr RmsNormKernels rms_norm_kernels() {
  return {rms_norm_factor<S>, rms_norm_scale<S>};
}

}  // namespace
}  // namespace octavo::kernels
