#pragma once

#include <cstdint>

// Elementary functions as templates over the Simd classes: the same polynomial and
// the same steps in all of them.

namespace octavo::kernels {
namespace {

/// 2^x; 0 below -126.5, inf from 128 on, NaN for NaN. Taylor of e^(f ln2) for |f| <= 1/2: relative
/// error 2.4e-6 at degree 5 (ample before a rounding to bf16), 5e-9 at degree 7.
template <class S, int Degree>
__attribute__((always_inline)) inline typename S::F exp2_of(typename S::F x) {
  static_assert(Degree == 5 || Degree == 7);
  x = S::max(S::set1(-127.0f), x);
  x = S::min(S::set1(128.0f), x);
  const typename S::I n = S::round_i(x);
  const typename S::F f = S::sub(x, S::to_f(n));
  typename S::F p = S::set1(1.3333558146428443e-3f);  // ln2^5 / 5!
  if constexpr (Degree == 7) {
    p = S::set1(1.5252733804059841e-5f);
    p = S::fma(p, f, S::set1(1.5403530393381610e-4f));
    p = S::fma(p, f, S::set1(1.3333558146428443e-3f));
  }
  p = S::fma(p, f, S::set1(9.6181291076284772e-3f));
  p = S::fma(p, f, S::set1(5.5504108664821580e-2f));
  p = S::fma(p, f, S::set1(2.4022650695910072e-1f));
  p = S::fma(p, f, S::set1(6.9314718055994531e-1f));
  p = S::fma(p, f, S::set1(1.0f));
  // n = 128 gives the bits of infinity, n = -127 those of zero.
  return S::mul(p, S::as_f(S::template sll<23>(S::iadd(n, S::iset1(127)))));
}

/// x = 2^x for x <= 0 (or NaN), the exponents of a softmax: the bits of exp2_of in fewer
/// instructions, but 0 below -126, so that a result is zero or a normal number. N vectors step by
/// step: their chains hide each other's latency, for which one after the other is too far apart.
template <class S, int Degree, int N>
__attribute__((always_inline)) inline void exp2_below_one(typename S::F (&x)[N]) {
  static_assert(Degree == 5 || Degree == 7);
  using F = typename S::F;
  constexpr float kHalves[] = {1.5252733804059841e-5f / 2, 1.5403530393381610e-4f / 2,
                               1.3333558146428443e-3f / 2, 9.6181291076284772e-3f / 2,
                               5.5504108664821580e-2f / 2, 2.4022650695910072e-1f / 2,
                               6.9314718055994531e-1f / 2, 0.5f};
  // Adding 1.5 * 2^23 rounds to an integer n and leaves it in the low bits; with 128 more those are
  // the biased exponent of 2^(n + 1), and the coefficients are halved for it.
  const F magic = S::set1(12582912.0f + 128.0f);
  F shifted[N], f[N], p[N];
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) shifted[i] = S::add(x[i], magic);
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) f[i] = S::sub(x[i], S::sub(shifted[i], magic));
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) p[i] = S::set1(kHalves[7 - Degree]);
#pragma GCC unroll 8
  for (int c = 8 - Degree; c < 8; ++c) {
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) p[i] = S::fma(p[i], f[i], S::set1(kHalves[c]));
  }
  // Lanes of smaller x hold anything before the last step.
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
    const F power = S::as_f(S::template sll<23>(S::as_i(shifted[i])));
    x[i] = S::zero_below(S::mul(p[i], power), x[i], -126.0f);
  }
}

/// e^x to about 2 ulp: x = n ln2 + r with ln2 in two parts, Taylor of degree 7 for |r| <= ln2 / 2.
template <class S>
__attribute__((always_inline)) inline typename S::F exp_of(typename S::F x) {
  x = S::max(S::set1(-88.0f), x);
  x = S::min(S::set1(88.7f), x);
  const typename S::I n = S::round_i(S::mul(x, S::set1(1.44269504088896341f)));
  const typename S::F fn = S::to_f(n);
  // 0.693359375 has 10 bits: its product with n is exact.
  typename S::F r = S::fma(fn, S::set1(-0.693359375f), x);
  r = S::fma(fn, S::set1(2.12194440e-4f), r);
  typename S::F p = S::set1(1.0f / 5040);
  p = S::fma(p, r, S::set1(1.0f / 720));
  p = S::fma(p, r, S::set1(1.0f / 120));
  p = S::fma(p, r, S::set1(1.0f / 24));
  p = S::fma(p, r, S::set1(1.0f / 6));
  p = S::fma(p, r, S::set1(0.5f));
  p = S::fma(p, r, S::set1(1.0f));
  p = S::fma(p, r, S::set1(1.0f));
  return S::mul(p, S::as_f(S::template sll<23>(S::iadd(n, S::iset1(127)))));
}

/// e^-x to about 2 ulp; between e^-87 and e^87 whatever x, anything there for NaN.
template <class S>
__attribute__((always_inline)) inline typename S::F exp_of_minus(typename S::F x) {
  using F = typename S::F;
  x = S::clamp(x, 87.0f);
  // As in exp2_below_one: the sum's low bits are the exponent of 2^(n + 1).
  const F magic = S::set1(12582912.0f + 128.0f);
  const F shifted = S::fma(x, S::set1(-1.44269504088896341f), magic);
  const F n = S::sub(shifted, magic);
  F r = S::fma(n, S::set1(0.693359375f), x);  // ln2 in two parts, as in exp_of
  r = S::fma(n, S::set1(-2.12194440e-4f), r);
  // Half of e^-r for |r| <= ln2 / 2, the least relative error that degree 5 can have: 7.5e-8.
  F p = S::set1(-8.297654957187749e-3f / 2);
  p = S::fma(p, r, S::set1(4.191538198554989e-2f / 2));
  p = S::fma(p, r, S::set1(-1.6667574730575580e-1f / 2));
  p = S::fma(p, r, S::set1(4.9998894851290154e-1f / 2));
  p = S::fma(p, r, S::set1(-9.9999969199098e-1f / 2));
  p = S::fma(p, r, S::set1(1.0000000716546724f / 2));
  return S::mul(p, S::as_f(S::template sll<23>(S::as_i(shifted))));
}

}  // namespace
}  // namespace octavo::kernels
