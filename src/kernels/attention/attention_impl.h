#pragma once

#include "kernels/attention/attention_params.h"
#include "kernels/attention/rotate_impl.h"
#include "kernels/simd/math.h"

// Attention of one tile against one chunk of keys, as templates over a Simd class `S` and the
// cache's element type `T`. What a row computes does not depend on the other rows of its tile: keys
// that it does not see get weight zero, and adding zero times a finite value changes nothing. So a
// decode step and a prefill tile agree bit for bit (promise P1).

namespace octavo::kernels {
namespace {

constexpr float kLog2e = 1.44269504088896341f;

/// Element types of the cache. A vector of K holds kParts dims of 16 tokens, a vector of V kParts
/// tokens of 16 dims; they are multiplied one part after the other, `part` P with operand
/// kIndex[P]: for bf16 in the order of vdpbf16ps, odd before even.
struct KvF32 {
  static constexpr int kParts = 1;
  static constexpr int kIndex[] = {0};
  static constexpr bool kRounded = false;  // are queries and weights rounded to bf16?
  static constexpr int kExpDegree = 7;
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

/// Dims of one query times `factor`, as the kernels read them.
template <class S, class T>
__attribute__((always_inline)) inline void load_query(std::byte* to, const float* from,
                                                      int64_t head_dim, float factor) {
  for (int64_t d = 0; d < head_dim; d += 16) {
    const int n = static_cast<int>(head_dim - d < 16 ? head_dim - d : 16);
    const typename S::F x =
        S::mul(n == 16 ? S::load(from + d) : S::load_n(from + d, n), S::set1(factor));
    if constexpr (kPacked<S, T>) {
      std::byte halves[32];
      S::store_low_halves(halves, S::bf16_bits(x));
      __builtin_memcpy(to + 2 * d, halves, static_cast<size_t>(2 * n));
    } else {
      S::store_n(reinterpret_cast<float*>(to) + d, T::kRounded ? S::round_bf16(x) : x, n);
    }
  }
}

/// `Rotated`: are the cache's keys rotated?
template <class S, class T, bool Rotated = false>
void load_queries(const AttentionCall& call, const AttentionTile& tile,
                  const AttentionScratch& scratch) {
  // Without a cap the exponent is taken to base 2: the factor is folded into the query.
  float factor = call.softcap > 0.0f ? call.scale : call.scale * kLog2e;
  if constexpr (Rotated) factor *= query_rotation_factor(rotation_dims(call.head_dim));
  const int64_t row_bytes = call.head_dim * kElementBytes<S, T>;
  std::byte* to = scratch.q;
  for (int64_t i = 0; i < tile.num_queries; ++i) {
    const float* from =
        call.q + (tile.token + i) * call.q_stride + tile.kv_head * call.group * call.head_dim;
    for (int64_t g = 0; g < call.group; ++g, from += call.head_dim, to += row_bytes) {
      if constexpr (Rotated) {
        for_rotated<S>(from, call.head_dim, [&](const float* piece, int64_t d, int64_t n) {
          load_query<S, T>(to + d * kElementBytes<S, T>, piece, n, factor);
        });
      } else {
        load_query<S, T>(to, from, call.head_dim, factor);
      }
    }
  }
}

/// Where the pages of a chunk lie and which of its keys a tile sees at all.
struct ChunkView {
  const std::byte* pages[kAttentionChunkPages];  // K of the tile's head, then V
  int64_t key_begin;                             // absolute position of the chunk
  int page_begin, page_end;                      // of `pages` that are read
  int key_end;                                   // first key of the chunk that no row may see
};

constexpr ChunkView kNoPages{};

inline __attribute__((always_inline)) int clamp_to_chunk(int64_t key) {
  return static_cast<int>(key < 0 ? 0 : key > kAttentionChunkKeys ? kAttentionChunkKeys : key);
}

/// First key that the query at `position` sees, relative to the chunk.
inline __attribute__((always_inline)) int first_key(const AttentionCall& call, int64_t position,
                                                    int64_t key_begin) {
  if (call.sliding_window <= 0) return 0;
  return clamp_to_chunk(position - call.sliding_window + 1 - key_begin);
}

/// First key behind those that the query at `position` sees, relative to the chunk.
inline __attribute__((always_inline)) int end_key(const AttentionCall& call,
                                                  const AttentionTile& tile, int64_t position,
                                                  int64_t key_begin) {
  if (!call.bidirectional) return clamp_to_chunk(position + 1 - key_begin);
  int64_t end = tile.num_keys;
  if (call.sliding_window > 0 && position + call.sliding_window < end) {
    end = position + call.sliding_window;
  }
  return clamp_to_chunk(end - key_begin);
}

inline __attribute__((always_inline)) ChunkView view_chunk(const AttentionCall& call,
                                                           const AttentionChunk& chunk) {
  if (chunk.tile == nullptr) return kNoPages;
  const AttentionTile& tile = *chunk.tile;
  ChunkView view;
  view.key_begin = chunk.index * kAttentionChunkKeys;
  view.key_end = end_key(call, tile, tile.position + tile.num_queries - 1, view.key_begin);
  view.page_begin = first_key(call, tile.position, view.key_begin) / 16;
  view.page_end = (view.key_end + 15) / 16;
  for (int i = view.page_begin; i < view.page_end; ++i) {
    const int64_t page = chunk.index * kAttentionChunkPages + i;
    const int64_t block = tile.block_table[page / tile.pages_per_block];
    const auto index =
        static_cast<size_t>(block * tile.pages_per_block + page % tile.pages_per_block);
    view.pages[i] =
        call.kv + index * call.page_bytes + static_cast<size_t>(tile.kv_head) * call.head_bytes;
  }
  return view;
}

/// Scores of MR rows against NP pages.
template <class S, class T, int MR, int NP>
void score_tile(const AttentionCall& call, const std::byte* q, const ChunkView& view, int page,
                bool fetch, float* scores) {
  using F = typename S::F;
  constexpr auto kBytes = static_cast<size_t>(kElementBytes<S, T>);
  const size_t q_stride = static_cast<size_t>(call.head_dim) * kBytes;
  F sum[MR][NP];
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NP; ++n) sum[m][n] = S::zero();
  }
  const std::byte* ahead[NP];
#pragma GCC unroll 8
  for (int n = 0; n < NP; ++n) {
    ahead[n] = page + NP + n < view.page_end ? view.pages[page + NP + n] : view.pages[page + n];
  }
  for (int64_t d = 0; d < call.head_dim / T::kParts; ++d, q += kBytes * T::kParts) {
    if (fetch) {
      // The next pages' keys and these pages' values: blocks lie anywhere, the hardware cannot
      // guess.
#pragma GCC unroll 8
      for (int n = 0; n < NP; ++n) {
        S::prefetch(ahead[n] + 64 * d);
        S::prefetch(view.pages[page + n] + call.v_offset + 64 * d);
      }
    }
    multiply<S, T, MR, NP>(
        sum,
        [&](int n)
            __attribute__((always_inline)) { return S::iload(view.pages[page + n] + 64 * d); },
        q, q_stride);
  }
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NP; ++n) {
      S::store(scores + m * kAttentionChunkKeys + 16 * (page + n), sum[m][n]);
    }
  }
}

/// cap * tanh(score / cap), in units of log2 e.
template <class S>
__attribute__((always_inline)) inline typename S::F cap_score(typename S::F score, float cap) {
  const typename S::F e = exp_of<S>(S::mul(score, S::set1(2.0f / cap)));
  const typename S::F t = S::sub(S::set1(1.0f), S::div(S::set1(2.0f), S::add(e, S::set1(1.0f))));
  return S::mul(t, S::set1(cap * kLog2e));
}

/// Turns one row's scores into weights: finds m, writes exp2(score - m), sums them.
template <class S, class T>
void softmax_row(const AttentionCall& call, const AttentionTile& tile, const ChunkView& view,
                 int64_t position, float* scores, [[maybe_unused]] std::byte* weights, float* m,
                 float* l) {
  using F = typename S::F;
  const int begin = first_key(call, position, view.key_begin);
  const int end = end_key(call, tile, position, view.key_begin);
  F largest = S::set1(-__builtin_inff());
  for (int p = view.page_begin; p < view.page_end; ++p) {
    F s = S::load(scores + 16 * p);
    if (call.softcap > 0.0f) s = cap_score<S>(s, call.softcap);
    if (begin > 16 * p || end < 16 * p + 16) {
      s = S::keep_lanes(s, begin - 16 * p, end - 16 * p, -__builtin_inff());
      S::store(scores + 16 * p, s);
    } else if (call.softcap > 0.0f) {
      S::store(scores + 16 * p, s);
    }
    largest = S::max(s, largest);
  }
  const bool sees_any = begin < end;
  const float row_max = S::reduce_max(largest);
  *m = sees_any ? row_max : -__builtin_inff();
  F sum = S::zero();
  for (int p = view.page_begin; p < view.page_end; ++p) {
    F e = S::zero();
    if (sees_any) {
      e = exp2_of<S, T::kExpDegree>(S::sub(S::load(scores + 16 * p), S::set1(row_max)));
    }
    if constexpr (T::kRounded) {
      const typename S::I bits = S::bf16_bits(e);
      if constexpr (S::kBf16Dot) S::store_low_halves(weights + 32 * p, bits);
      e = S::as_f(S::template sll<16>(bits));
    }
    if constexpr (!kPacked<S, T>) S::store(scores + 16 * p, e);
    sum = S::add(sum, e);
  }
  *l = S::reduce_add(sum);
}

/// Weighted sums of V: MR rows, ND vectors of 16 dims, the last of `lanes` lanes. These values were
/// asked for while the scores were computed; what is asked for now are the keys of `next`, so that
/// memory is never idle.
template <class S, class T, int MR, int ND>
void value_tile(const AttentionCall& call, const std::byte* weights, size_t weight_stride,
                const ChunkView& view, const ChunkView& next, int64_t dim, int lanes, float* o) {
  using F = typename S::F;
  constexpr int kVectors = 16 / T::kParts;  // of tokens in a page
  constexpr auto kBytes = static_cast<size_t>(kElementBytes<S, T>);
  const int64_t o_stride = attention_row_floats(call.head_dim);
  const auto v_stride = static_cast<size_t>(call.head_dim) * 4;
  F sum[MR][ND];
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < ND; ++n) sum[m][n] = S::zero();
  }
  // When the last pair holds one key only, its other half may be anything, NaN too.
  const int end = view.key_end / T::kParts;
  const auto vector_at = [&](int p, int t) __attribute__((always_inline)) {
    return view.pages[p] + call.v_offset + 4 * dim + static_cast<size_t>(t) * v_stride;
  };
  const auto weights_at = [&](int p, int t) __attribute__((always_inline)) {
    return weights + kBytes * static_cast<size_t>(16 * p + T::kParts * t);
  };
  const auto load = [&](const std::byte* v, int n) __attribute__((always_inline)) {
    return n == ND - 1 && lanes < 16 ? S::iload_n(v + 64 * n, lanes) : S::iload(v + 64 * n);
  };
  for (int p = view.page_begin; p < view.page_end; ++p) {
    const std::byte* v = vector_at(p, 0);
    const std::byte* w = weights_at(p, 0);
    const int vectors = end - p * kVectors < kVectors ? end - p * kVectors : kVectors;
    const bool fetch = p >= next.page_begin && p < next.page_end;
    for (int t = 0; t < vectors; ++t, v += v_stride, w += kBytes * T::kParts) {
      if (fetch) {
        for (size_t i = 64 * static_cast<size_t>(t); i < call.v_offset; i += 64 * kVectors) {
          S::prefetch_l2(next.pages[p] + i);
        }
      }
      multiply<S, T, MR, ND>(
          sum, [&](int n) __attribute__((always_inline)) { return load(v, n); }, w, weight_stride);
    }
  }
  if (T::kParts == 2 && view.key_end % 2 != 0) {
    const int p = view.page_end - 1;
    const int t = end - p * kVectors;
    const std::byte* const v = vector_at(p, t);
    multiply<S, T, MR, ND>(
        sum,
        [&](int n) __attribute__((always_inline)) { return S::iand(load(v, n), S::iset1(0xffff)); },
        weights_at(p, t), weight_stride);
  }
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < ND; ++n) S::store(o + m * o_stride + dim + 16 * n, sum[m][n]);
  }
}

/// Calls `f` with Count as a template argument for count = Count, Count - 1, ... 1.
template <int Count, class F>
__attribute__((always_inline)) inline void with_count(int count, F f) {
  if constexpr (Count == 1) {
    (void)count;
    f.template operator()<1>();
  } else {
    if (count >= Count) {
      f.template operator()<Count>();
    } else {
      with_count<Count - 1>(count, f);
    }
  }
}

/// `next`: the pages that this thread reads next. `fetch`: do those of `view` lie in memory, so
/// that they are worth a prefetch?
template <class S, class T>
void run_pages(const AttentionCall& call, const AttentionTile& tile, const ChunkView& view,
               const ChunkView& next, bool fetch, const AttentionScratch& scratch,
               const AttentionState& result) {
  const int64_t num_rows = tile.num_queries * call.group;
  const int64_t q_bytes = call.head_dim * kElementBytes<S, T>;
  const int64_t o_stride = attention_row_floats(call.head_dim);

  for (int64_t row = 0; row < num_rows; row += S::kAttentionRows) {
    const int rows =
        static_cast<int>(num_rows - row < S::kAttentionRows ? num_rows - row : S::kAttentionRows);
    for (int page = view.page_begin; page < view.page_end;) {
      const int left = view.page_end - page;
      const int pages = left < S::kAttentionPages ? left : S::kAttentionPages;
      with_count<S::kAttentionRows>(
          rows, [&]<int MR>() __attribute__((always_inline)) {
            with_count<S::kAttentionPages>(
                pages, [&]<int NP>() __attribute__((always_inline)) {
                  score_tile<S, T, MR, NP>(call, scratch.q + row * q_bytes, view, page,
                                           fetch && row == 0,
                                           scratch.scores + row * kAttentionChunkKeys);
                });
          });
      page += pages;
    }
  }

  for (int64_t row = 0; row < num_rows; ++row) {
    softmax_row<S, T>(call, tile, view, tile.position + row / call.group,
                      scratch.scores + row * kAttentionChunkKeys,
                      scratch.weights + row * kAttentionChunkKeys * 2, result.m + row,
                      result.l + row);
  }

  const std::byte* const weights =
      kPacked<S, T> ? scratch.weights : reinterpret_cast<const std::byte*>(scratch.scores);
  constexpr size_t kWeightStride = kAttentionChunkKeys * static_cast<size_t>(kElementBytes<S, T>);
  for (int64_t row = 0; row < num_rows; row += S::kAttentionRows) {
    const int rows =
        static_cast<int>(num_rows - row < S::kAttentionRows ? num_rows - row : S::kAttentionRows);
    for (int64_t dim = 0; dim < call.head_dim;) {
      const int64_t left = call.head_dim - dim;
      const int vectors =
          static_cast<int>(left >= 16 * S::kAttentionDims ? S::kAttentionDims : (left + 15) / 16);
      const int lanes = left >= 16 * vectors ? 16 : static_cast<int>(left - 16 * (vectors - 1));
      with_count<S::kAttentionRows>(
          rows, [&]<int MR>() __attribute__((always_inline)) {
            with_count<S::kAttentionDims>(
                vectors, [&]<int ND>() __attribute__((always_inline)) {
                  value_tile<S, T, MR, ND>(call, weights + static_cast<size_t>(row) * kWeightStride,
                                           kWeightStride, view,
                                           row == 0 && dim == 0 ? next : kNoPages, dim, lanes,
                                           result.o + row * o_stride);
                });
          });
      dim += 16 * vectors;
    }
  }
}

template <class S, class T>
void run_chunk(const AttentionCall& call, const AttentionChunk& chunk, const AttentionChunk& next,
               const AttentionScratch& scratch, const AttentionState& result) {
  run_pages<S, T>(call, *chunk.tile, view_chunk(call, chunk), view_chunk(call, next), true, scratch,
                  result);
}

template <class S>
void merge_states(int64_t num_rows, int64_t head_dim, const AttentionState& state,
                  const AttentionState& chunk) {
  const int64_t stride = attention_row_floats(head_dim);
  for (int64_t row = 0; row < num_rows; ++row) {
    const float m_chunk = chunk.m[row];
    const float m_state = state.m[row];
    if (m_chunk == -__builtin_inff()) continue;
    float* const o = state.o + row * stride;
    const float* const o_chunk = chunk.o + row * stride;
    if (m_state == -__builtin_inff()) {
      for (int64_t d = 0; d < stride; d += 16) S::store(o + d, S::load(o_chunk + d));
      state.m[row] = m_chunk;
      state.l[row] = chunk.l[row];
      continue;
    }
    const float m = m_chunk > m_state ? m_chunk : m_state;
    float lanes[16] = {m_state - m, m_chunk - m};
    S::store(lanes, exp2_of<S, 7>(S::load(lanes)));
    const typename S::F old_factor = S::set1(lanes[0]);
    const typename S::F new_factor = S::set1(lanes[1]);
    for (int64_t d = 0; d < stride; d += 16) {
      S::store(o + d, S::fma(S::load(o_chunk + d), new_factor, S::mul(S::load(o + d), old_factor)));
    }
    state.l[row] = state.l[row] * lanes[0] + chunk.l[row] * lanes[1];
    state.m[row] = m;
  }
}

template <class S>
void finish_rows(const AttentionCall& call, const AttentionTile& tile,
                 const AttentionState& state) {
  const int64_t stride = attention_row_floats(call.head_dim);
  int64_t row = 0;
  for (int64_t i = 0; i < tile.num_queries; ++i) {
    float* out =
        call.out + (tile.token + i) * call.out_stride + tile.kv_head * call.group * call.head_dim;
    for (int64_t g = 0; g < call.group; ++g, ++row, out += call.head_dim) {
      const typename S::F l = S::set1(state.l[row]);
      for (int64_t d = 0; d < call.head_dim; d += 16) {
        const int n = static_cast<int>(call.head_dim - d < 16 ? call.head_dim - d : 16);
        S::store_n(out + d, S::div(S::load(state.o + row * stride + d), l), n);
      }
    }
  }
}

}  // namespace
}  // namespace octavo::kernels
