#pragma once

#include "kernels/attention/code_panels_impl.h"

// Tiles of few rows over a one-byte cache, without panels: a decode step multiplies what it widens
// three or four times, so a panel written and read again would be most of its work. The products
// and their order are those of the panels: the same bits. e4m3's NaN has no half of its own, so a
// tile that meets one says so, and its chunk goes through panels, which mend them.

namespace octavo::kernels {
namespace {

/// Dims that a value tile takes at once: two lines of 32 dims, each with both tokens of a pair.
constexpr int kCodeDims = 64;

/// Splits the line at `from` and keeps what tells whether it holds a NaN.
template <class S, class Form>
__attribute__((always_inline)) inline void split_and_look(const std::byte* from, CodeLine& line,
                                                          typename S::I& most) {
  S::template split_codes<Form>(line.even, line.odd, from);
  if constexpr (!Form::kHasInfinity) most = S::max_codes(most, S::iload(from));
}

/// sum[m][n] += the halves at kv(n), widened, times x of row m.
template <class S, int MR, int N, class Halves>
__attribute__((always_inline)) inline void multiply_halves(typename S::F (&sum)[MR][N],
                                                           Halves halves, const std::byte* x,
                                                           size_t x_stride) {
  typename S::F kv[N];
#pragma GCC unroll 8
  for (int n = 0; n < N; ++n) kv[n] = S::load_f16(halves(n));
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
    float value;
    __builtin_memcpy(&value, x + static_cast<size_t>(m) * x_stride, 4);
    const typename S::F operand = S::set1(value);
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) sum[m][n] = S::fma(kv[n], operand, sum[m][n]);
  }
}

/// As score_tile; false if a NaN is among the keys.
template <class S, class Form, int MR, int NP>
bool code_score_tile(const AttentionCall& call, const std::byte* q, const ChunkView& view, int page,
                     float* scores) {
  const auto q_stride = static_cast<size_t>(call.head_dim) * 4;
  typename S::F sum[MR][NP];
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NP; ++n) sum[m][n] = S::zero();
  }
  typename S::I most = S::izero();
  const std::byte* ahead[NP];
#pragma GCC unroll 8
  for (int n = 0; n < NP; ++n) {
    ahead[n] = page + NP + n < view.page_end ? view.pages[page + NP + n] : view.pages[page + n];
  }
  CodeLine line[NP];
  for (int64_t i = 0; i < call.head_dim; i += 4, q += 16) {  // a line has 4 dims of 16 tokens
#pragma GCC unroll 8
    for (int n = 0; n < NP; ++n) {
      const std::byte* const from = view.pages[page + n] + 16 * i;
      S::prefetch(ahead[n] + 16 * i);
      S::prefetch(from + call.v_offset);
      split_and_look<S, Form>(from, line[n], most);
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const int at = 32 * half;
      multiply_halves<S, MR, NP>(
          sum, [&](int n) __attribute__((always_inline)) { return line[n].odd + at; },
          q + 8 * half + 4, q_stride);
      multiply_halves<S, MR, NP>(
          sum, [&](int n) __attribute__((always_inline)) { return line[n].even + at; },
          q + 8 * half, q_stride);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NP; ++n) {
      S::store(scores + m * kAttentionChunkKeys + 16 * (page + n), sum[m][n]);
    }
  }
  return Form::kHasInfinity || !S::template is_code_above<Form>(most);
}

/// As value_tile, from zero, of kCodeDims dims; false if a NaN is among the values.
template <class S, class Form, int MR>
bool code_value_tile(const AttentionCall& call, const std::byte* weights, size_t weight_stride,
                     const ChunkView& view, const KeySpan& span, const ChunkView& next,
                     size_t early, int64_t dim, float* o) {
  constexpr int kVectors = kCodeDims / 16;
  const int64_t o_stride = attention_row_floats(call.head_dim);
  const auto v_stride = static_cast<size_t>(call.head_dim) * 2;
  typename S::F sum[MR][kVectors];
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < kVectors; ++n) sum[m][n] = S::zero();
  }
  typename S::I most = S::izero();
  CodeLine line[2];
  const auto odd = [&](int n) __attribute__((always_inline)) {
    return line[n / 2].odd + 32 * (n % 2);
  };
  const auto even = [&](int n) __attribute__((always_inline)) {
    return line[n / 2].even + 32 * (n % 2);
  };
  for (int p = span.page_begin; p < span.page_end; ++p) {
    const std::byte* v = view.pages[p] + call.v_offset + 2 * dim;
    const std::byte* w = weights + 64 * static_cast<size_t>(p);
    const int keys = span.key_end - 16 * p < 16 ? span.key_end - 16 * p : 16;
    const bool fetch = p >= next.page_begin && p < next.page_end;
    size_t ahead = early + 2 * static_cast<size_t>(dim);  // in the next page's keys
    for (int key = 0; key < keys; key += 2, v += v_stride, w += 8, ahead += v_stride) {
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        if (fetch && ahead < call.v_offset) S::prefetch_l2(next.pages[p] + ahead + 64 * i);
        split_and_look<S, Form>(v + 64 * i, line[i], most);
      }
      // The second key of the last pair may be one that nobody sees.
      if (key + 1 < keys) multiply_halves<S, MR, kVectors>(sum, odd, w + 4, weight_stride);
      multiply_halves<S, MR, kVectors>(sum, even, w, weight_stride);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < kVectors; ++n) S::store(o + m * o_stride + dim + 16 * n, sum[m][n]);
  }
  return Form::kHasInfinity || !S::template is_code_above<Form>(most);
}

}  // namespace
}  // namespace octavo::kernels
