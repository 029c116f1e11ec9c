#pragma once

#include "kernels/rope/rope_params.h"

namespace octavo::kernels {
namespace {

template <class S>
void rope_row(float* x, const float* cos, const float* sin, int64_t num_heads, int64_t head_dim,
              int64_t num_freqs) {
  using F = typename S::F;
  for (int64_t head = 0; head < num_heads; ++head, x += head_dim) {
    for (int64_t i = 0; i < num_freqs; i += 16) {
      const int n = static_cast<int>(num_freqs - i < 16 ? num_freqs - i : 16);
      float* const low = x + i;
      float* const high = x + num_freqs + i;
      const F a = n == 16 ? S::load(low) : S::load_n(low, n);
      const F b = n == 16 ? S::load(high) : S::load_n(high, n);
      const F c = n == 16 ? S::load(cos + i) : S::load_n(cos + i, n);
      const F s = n == 16 ? S::load(sin + i) : S::load_n(sin + i, n);
      // Products rounded before the sum, as in the reference implementations.
      const F rotated_low = S::sub(S::mul(a, c), S::mul(b, s));
      const F rotated_high = S::add(S::mul(b, c), S::mul(a, s));
      if (n == 16) {
        S::store(low, rotated_low);
        S::store(high, rotated_high);
      } else {
        S::store_n(low, rotated_low, n);
        S::store_n(high, rotated_high, n);
      }
    }
  }
}

}  // namespace
}  // namespace octavo::kernels
