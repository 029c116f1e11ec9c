#pragma once

#include "kernels/silu_and_mul/silu_and_mul_params.h"
#include "kernels/simd/math.h"

namespace octavo::kernels {
namespace {

template <class S>
__attribute__((always_inline)) inline typename S::F silu_times(typename S::F gate,
                                                               typename S::F up) {
  const typename S::F denominator = S::add(S::set1(1.0f), exp_of_minus<S>(gate));
  return S::mul(S::mul(gate, S::reciprocal(denominator)), up);
}

template <class S>
void silu_and_mul_row(float* out, const float* gate, const float* up, int64_t size) {
  int64_t i = 0;
  for (; i + 16 <= size; i += 16) {
    S::store(out + i, silu_times<S>(S::load(gate + i), S::load(up + i)));
  }
  const int rest = static_cast<int>(size - i);
  if (rest > 0) {
    S::store_n(out + i, silu_times<S>(S::load_n(gate + i, rest), S::load_n(up + i, rest)), rest);
  }
}

}  // namespace
}  // namespace octavo::kernels
