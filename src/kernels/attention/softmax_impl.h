#pragma once

#include "kernels/attention/chunk_view_impl.h"
#include "kernels/attention/kv_elements_impl.h"
#include "kernels/simd/math.h"

// The softmax of one chunk's scores, and the joining of chunks.

namespace octavo::kernels {
namespace {

constexpr float kLog2e = 1.44269504088896341f;

/// Weights (zero, normal numbers up to one, or NaN) rounded to bf16: half of the instructions of
/// the general rounding. Adding 2^16 times its own power of two leaves 7 mantissa bits.
template <class S, int N>
__attribute__((always_inline)) inline void round_weights(typename S::F (&e)[N]) {
  typename S::F magic[N];
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
    const typename S::I exponent = S::iand(S::as_i(e[i]), S::iset1(0x7f800000));
    magic[i] = S::as_f(S::iadd(exponent, S::iset1(16 << 23)));
  }
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) e[i] = S::sub(S::add(e[i], magic[i]), magic[i]);
}

/// Turns the scores of N pages into weights and adds those to `sum`.
template <class S, class T, int N>
__attribute__((always_inline)) inline typename S::F weigh_pages(typename S::F shift, float* scores,
                                                                std::byte* weights,
                                                                typename S::F sum) {
  typename S::F e[N];
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) e[i] = S::sub(S::load(scores + 16 * i), shift);
  exp2_below_one<S, T::kExpDegree, N>(e);
  if constexpr (kPacked<S, T>) {
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) {
      const typename S::I bits = S::bf16_bits(e[i]);
      S::store_low_halves(weights + 32 * i, bits);
      e[i] = S::as_f(S::template sll<16>(bits));
    }
  } else {
    (void)weights;
    if constexpr (T::kRounded) round_weights<S, N>(e);
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) {
      const bool as_is = T::kFactor == 1.0f;
      S::store(scores + 16 * i, as_is ? e[i] : S::mul(e[i], S::set1(T::kFactor)));
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) sum = S::add(sum, e[i]);
  return sum;
}

/// cap * tanh(score / cap), in units of log2 e.
template <class S>
__attribute__((always_inline)) inline typename S::F cap_score(typename S::F score, float cap) {
  const typename S::F e = exp_of<S>(S::mul(score, S::set1(2.0f / cap)));
  const typename S::F t = S::sub(S::set1(1.0f), S::div(S::set1(2.0f), S::add(e, S::set1(1.0f))));
  return S::mul(t, S::set1(cap * kLog2e));
}

/// Caps the scores of one row and hides those outside [begin, end).
template <class S>
void prepare_scores(const AttentionCall& call, const KeySpan& span, int begin, int end,
                    float* scores) {
  for (int p = span.page_begin; p < span.page_end; ++p) {
    typename S::F s = S::load(scores + 16 * p);
    if (call.softcap > 0.0f) s = cap_score<S>(s, call.softcap);
    if (begin > 16 * p || end < 16 * p + 16) {
      s = S::keep_lanes(s, begin - 16 * p, end - 16 * p, -__builtin_inff());
    }
    S::store(scores + 16 * p, s);
  }
}

/// Turns one row's scores into weights: finds m, writes exp2(score - m), sums them.
template <class S, class T>
void softmax_row(const AttentionCall& call, const AttentionTile& tile, int64_t key_begin,
                 const KeySpan& span, int64_t position, float* scores, std::byte* weights, float* m,
                 float* l) {
  using F = typename S::F;
  const int begin = first_key(call, position, key_begin);
  const int end = end_key(call, tile, position, key_begin);
  F largest = S::set1(-__builtin_inff());
  if (call.softcap > 0.0f || begin > 16 * span.page_begin || end < 16 * span.page_end) {
    prepare_scores<S>(call, span, begin, end, scores);
  }
  for (int p = span.page_begin; p < span.page_end; ++p) {
    largest = S::max(S::load(scores + 16 * p), largest);
  }
  const bool sees_any = begin < end;
  const float row_max = S::reduce_max(largest);
  *m = sees_any ? row_max : -__builtin_inff();
  // A row that sees nothing has -inf for all scores: less zero they give weights of zero.
  const F shift = S::set1(sees_any ? row_max : 0.0f);
  F sum = S::zero();
  int p = span.page_begin;
  for (; p + S::kSoftmaxPages <= span.page_end; p += S::kSoftmaxPages) {
    sum = weigh_pages<S, T, S::kSoftmaxPages>(shift, scores + 16 * p, weights + 32 * p, sum);
  }
  for (; p < span.page_end; ++p) {
    sum = weigh_pages<S, T, 1>(shift, scores + 16 * p, weights + 32 * p, sum);
  }
  *l = S::reduce_add(sum);
}

/// state = state joined with `chunk`, row by row.
template <class S>
void merge_states(int64_t num_rows, int64_t head_dim, const AttentionState& state,
                  const AttentionState& chunk) {
  const int64_t stride = attention_row_floats(head_dim);
  float m[16], old_factor[16], new_factor[16];
  for (int64_t row = 0; row < num_rows; ++row) {
    const int lane = static_cast<int>(row % 16);
    if (lane == 0) {
      // The factors of 16 rows at once.
      const int rows = static_cast<int>(num_rows - row < 16 ? num_rows - row : 16);
      const typename S::F m_state = S::load_n(state.m + row, rows);
      const typename S::F m_chunk = S::load_n(chunk.m + row, rows);
      const typename S::F m_both = S::max(m_chunk, m_state);
      S::store(m, m_both);
      S::store(old_factor, exp2_of<S, 7>(S::sub(m_state, m_both)));
      S::store(new_factor, exp2_of<S, 7>(S::sub(m_chunk, m_both)));
    }
    if (chunk.m[row] == -__builtin_inff()) continue;
    float* const o = state.o + row * stride;
    const float* const o_chunk = chunk.o + row * stride;
    if (state.m[row] == -__builtin_inff()) {
      for (int64_t d = 0; d < stride; d += 16) S::store(o + d, S::load(o_chunk + d));
      state.l[row] = chunk.l[row];
    } else {
      const typename S::F old_scale = S::set1(old_factor[lane]);
      const typename S::F new_scale = S::set1(new_factor[lane]);
      for (int64_t d = 0; d < stride; d += 16) {
        S::store(o + d, S::fma(S::load(o_chunk + d), new_scale, S::mul(S::load(o + d), old_scale)));
      }
      state.l[row] = state.l[row] * old_factor[lane] + chunk.l[row] * new_factor[lane];
    }
    state.m[row] = m[lane];
  }
}

}  // namespace
}  // namespace octavo::kernels
