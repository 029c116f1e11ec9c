#pragma once

#include <cstddef>
#include <cstdint>

// The cache's element types as traits, and the product of one vector of K or V with several rows.

namespace octavo::kernels {
namespace {

/// Element types of the cache. A vector of K holds kParts dims of 16 tokens, a vector of V kParts
/// tokens of 16 dims; they are multiplied one part after the other, `part` P with operand
/// kIndex[P]: for bf16 in the order of vdpbf16ps, odd before even.
struct KvF32 {
  static constexpr int kParts = 1;
  static constexpr int kIndex[] = {0};
  static constexpr bool kRounded = false;  // are queries and weights rounded to bf16?
  static constexpr int kExpDegree = 7;
  static constexpr bool kCodes = false;  // codes of one byte?
  static constexpr float kFactor = 1.0f;
  template <class S, int P>
  static __attribute__((always_inline)) inline typename S::F part(typename S::I kv) {
    return S::as_f(kv);
  }
};
struct KvF16 {
  static constexpr int kParts = 2;
  static constexpr int kIndex[] = {0, 1};
  static constexpr bool kRounded = false;
  static constexpr int kExpDegree = 7;
  static constexpr bool kCodes = false;
  static constexpr float kFactor = 1.0f;
  template <class S, int P>
  static __attribute__((always_inline)) inline typename S::F part(typename S::I kv) {
    if constexpr (P == 0) return S::half_to_f(S::iand(kv, S::iset1(0xffff)));
    if constexpr (P == 1) return S::half_to_f(S::template srl<16>(kv));
  }
};
struct KvBF16 {
  static constexpr int kParts = 2;
  static constexpr int kIndex[] = {1, 0};
  static constexpr bool kRounded = true;
  static constexpr int kExpDegree = 5;
  static constexpr bool kCodes = false;
  static constexpr float kFactor = 1.0f;
  template <class S, int P>
  static __attribute__((always_inline)) inline typename S::F part(typename S::I kv) {
    if constexpr (P == 0) return S::as_f(S::iand(kv, S::iset1(static_cast<int32_t>(0xffff0000u))));
    if constexpr (P == 1) return S::as_f(S::template sll<16>(kv));
  }
};

/// Are operands pairs of bf16 for the bf16 dot instruction, or f32?
template <class S, class T>
constexpr bool kPacked = T::kRounded&& S::kBf16Dot;
template <class S, class T>
constexpr int64_t kElementBytes = kPacked<S, T> ? 2 : 4;

/// sum[m][n] += one vector of K or V (at kv[n]) times the operands of row m at x + m * x_stride.
/// `load(n)` reads the vector; each part reads it again, which costs less than the registers.
template <class S, class T, int MR, int N, int P = 0, class Load>
__attribute__((always_inline)) inline void multiply(typename S::F (&sum)[MR][N], Load load,
                                                    const std::byte* x, size_t x_stride) {
  if constexpr (kPacked<S, T>) {
    typename S::I kv[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) kv[n] = load(n);
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m) {
      const typename S::I pair = S::bcast4(x + static_cast<size_t>(m) * x_stride);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) sum[m][n] = S::dpbf16(sum[m][n], kv[n], pair);
    }
  } else {
    typename S::F kv[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) kv[n] = T::template part<S, P>(load(n));
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m) {
      float value;
      __builtin_memcpy(&value, x + static_cast<size_t>(m) * x_stride + 4 * T::kIndex[P], 4);
      const typename S::F operand = S::set1(value);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) sum[m][n] = S::fma(kv[n], operand, sum[m][n]);
    }
    if constexpr (P + 1 < T::kParts) multiply<S, T, MR, N, P + 1>(sum, load, x, x_stride);
  }
}

}  // namespace
}  // namespace octavo::kernels
