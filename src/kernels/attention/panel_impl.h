#pragma once

#include "kernels/attention/chunk_view_impl.h"
#include "kernels/attention/kv_elements_impl.h"

// Tiles of many rows: K or V of a few pages is widened to f32 once, into a panel that stays in L1
// while all rows pass over it. Widening in the inner loop would compete with the FMAs for the same
// two ports, for every six rows anew. The products and their order are those of the direct tiles,
// with the sums passing through memory between panels, so the bits are the same.

namespace octavo::kernels {
namespace {

constexpr int kPanelPages = 4;
constexpr int kPanelKeys = 16 * kPanelPages;
constexpr int kPanelDims = 64;
static_assert(kPanelDims == kPanelKeys && kPanelDims * kPanelKeys == kAttentionPanelFloats);

/// sum[m][n] += panel rows times row m of x: `steps` of them, those of K a dim each, of V a token.
/// A panel row has N vectors of the `stride` floats in it, and element i of x belongs to row i.
/// Pairs of bf16 are summed the odd one first, as vdpbf16ps does.
template <class S, bool OddFirst, int MR, int N>
void panel_tile(int steps, const float* panel, const std::byte* x, size_t x_stride, bool add,
                float* out, int64_t out_stride) {
  using F = typename S::F;
  constexpr int kStride = 16 * S::kAttentionPages;
  static_assert(S::kAttentionPages == S::kAttentionDims);
  F sum[MR][N];
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      sum[m][n] = add ? S::load(out + m * out_stride + 16 * n) : S::zero();
    }
  }
  const auto step = [&](int i) __attribute__((always_inline)) {
    F kv[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) kv[n] = S::load(panel + i * kStride + 16 * n);
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m) {
      float value;
      __builtin_memcpy(&value, x + static_cast<size_t>(m) * x_stride + 4 * i, 4);
      const F operand = S::set1(value);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) sum[m][n] = S::fma(kv[n], operand, sum[m][n]);
    }
  };
  constexpr int kStep = OddFirst ? 2 : 1;
  for (int i = 0; i < steps; i += kStep, panel += kStep * kStride, x += 4 * kStep) {
    if constexpr (OddFirst) step(1);
    step(0);
  }
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) S::store(out + m * out_stride + 16 * n, sum[m][n]);
  }
}

/// The parts of one vector of K or V into the panel rows they belong to.
template <class S, class T, int P = 0>
__attribute__((always_inline)) inline void store_parts(typename S::I kv, float* panel) {
  constexpr int kStride = 16 * S::kAttentionPages;
  S::store(panel + T::kIndex[P] * kStride, T::template part<S, P>(kv));
  if constexpr (P + 1 < T::kParts) store_parts<S, T, P + 1>(kv, panel);
}

/// Where vector n of a panel starts: side by side as many as a tile takes, then the next block.
template <class S>
__attribute__((always_inline)) inline float* panel_vector(float* panel, int n) {
  constexpr int kVectors = S::kAttentionPages;
  return panel + n / kVectors * kVectors * 16 * kPanelDims + n % kVectors * 16;
}

/// Dims [dim, dim + dims) of K of pages [page, page + pages): panel row = dim, vector = page.
template <class S, class T>
void widen_keys(const ChunkView& view, int page, int pages, int64_t dim, int dims, float* panel) {
  constexpr int kStride = 16 * S::kAttentionPages;
  const int64_t offset = 64 * (dim / T::kParts);
  for (int n = 0; n < pages; ++n) {
    const std::byte* const from = view.pages[page + n] + offset;
    float* to = panel_vector<S>(panel, n);
    for (int i = 0; i < dims / T::kParts; ++i, to += T::kParts * kStride) {
      store_parts<S, T>(S::iload(from + 64 * i), to);
    }
  }
}

/// Dims [dim, dim + dims) of V of the same pages: panel row = token, vector = 16 dims. Zeros where
/// no row sees the token: the other half of its pair may be anything, NaN too.
template <class S, class T>
void widen_values(const AttentionCall& call, const ChunkView& view, int page, int pages,
                  int64_t dim, int dims, float* panel) {
  constexpr int kStride = 16 * S::kAttentionPages;
  const auto v_stride = static_cast<size_t>(call.head_dim) * 4;
  const int seen = view.key_end - 16 * page;
  const int keys = seen < 16 * pages ? seen : 16 * pages;
  for (int n = 0; 16 * n < dims; ++n) {
    const int lanes = dims - 16 * n < 16 ? dims - 16 * n : 16;
    float* to = panel_vector<S>(panel, n);
    for (int key = 0; key < keys; key += T::kParts, to += T::kParts * kStride) {
      const std::byte* const from = view.pages[page + key / 16] + call.v_offset + 4 * dim + 64 * n +
                                    static_cast<size_t>(key % 16 / T::kParts) * v_stride;
      store_parts<S, T>(lanes == 16 ? S::iload(from) : S::iload_n(from, lanes), to);
    }
    if (keys % T::kParts != 0) S::store(to - kStride, S::zero());
  }
}

}  // namespace
}  // namespace octavo::kernels
