#pragma once

#include <cstdint>

// Keys of a one-byte cache, and the queries that meet them, are rotated by the same matrix: the
// Walsh-Hadamard matrix H[i][j] = (-1)^(number of ones in i & j) over blocks of dims. q.k stays
// what it is, but a few large channels, whose rounding errors would be those of the whole product,
// are spread over all dims (docs/decisions/0008).

namespace octavo::kernels {
namespace {

constexpr int64_t kMaxRotationDims = 256;  // a block lies on the stack, 1 KiB

/// Dims of a block: the largest power of two that divides head_dim.
inline __attribute__((always_inline)) int64_t rotation_dims(int64_t head_dim) {
  const int64_t power = head_dim & -head_dim;
  return power < kMaxRotationDims ? power : kMaxRotationDims;
}

/// H H^T is `dims` times one. A power of two near 1 / sqrt(dims) for the keys, the rest for the
/// queries: neither rounds.
inline __attribute__((always_inline)) float key_rotation_factor(int64_t dims) {
  float factor = 1.0f;
  for (int64_t n = 1; n < dims; n *= 4) factor *= 0.5f;
  return factor;
}
inline __attribute__((always_inline)) float query_rotation_factor(int64_t dims) {
  return 1.0f / (static_cast<float>(dims) * key_rotation_factor(dims));
}

/// Lane i and lane i ^ H become their sum (where bit H of i is 0) and their difference. The factor
/// is 1 or -1, so a fused multiply-add gives the bits of an addition.
template <class S, int H>
__attribute__((always_inline)) inline typename S::F butterfly(typename S::F x) {
  constexpr auto sign = [](int lane) { return (lane & H) != 0 ? -1.0f : 1.0f; };
  alignas(64) static constexpr float kSigns[16] = {
      sign(0), sign(1), sign(2),  sign(3),  sign(4),  sign(5),  sign(6),  sign(7),
      sign(8), sign(9), sign(10), sign(11), sign(12), sign(13), sign(14), sign(15)};
  return S::fma(x, S::load(kSigns), S::template xor_lanes<H>(x));
}

/// to = H from, without factor, in blocks of `dims`; n <= 256 is a multiple of `dims`. `to` has
/// room for whole vectors, zeros fill the last.
template <class S>
__attribute__((always_inline)) inline void rotate(float* to, const float* from, int64_t n,
                                                  int64_t dims) {
  for (int64_t d = 0; d < n; d += 16) {
    typename S::F x =
        n - d >= 16 ? S::load(from + d) : S::load_n(from + d, static_cast<int>(n - d));
    if (dims >= 2) x = butterfly<S, 1>(x);
    if (dims >= 4) x = butterfly<S, 2>(x);
    if (dims >= 8) x = butterfly<S, 4>(x);
    if (dims >= 16) x = butterfly<S, 8>(x);
    S::store(to + d, x);
  }
  for (int64_t half = 16; half < dims; half *= 2) {
    for (int64_t i = 0; i < n; i += 2 * half) {
      for (int64_t j = i; j < i + half; j += 16) {
        const typename S::F a = S::load(to + j);
        const typename S::F b = S::load(to + j + half);
        S::store(to + j, S::add(a, b));
        S::store(to + j + half, S::sub(a, b));
      }
    }
  }
}

/// Calls f(rotated dims, first dim, number of dims) for one piece of a row after the other. Pieces
/// start at multiples of 16.
template <class S, class F>
__attribute__((always_inline)) inline void for_rotated(const float* x, int64_t head_dim, F f) {
  const int64_t dims = rotation_dims(head_dim);
  const int64_t step = dims < 16 ? 16 : dims;
  alignas(64) float piece[kMaxRotationDims];
  for (int64_t d = 0; d < head_dim; d += step) {
    const int64_t n = head_dim - d < step ? head_dim - d : step;
    rotate<S>(piece, x + d, n, dims);
    f(piece, d, n);
  }
}

}  // namespace
}  // namespace octavo::kernels
