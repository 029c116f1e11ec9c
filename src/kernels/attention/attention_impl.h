#pragma once

#include <utility>

#include "kernels/attention/code_tiles_impl.h"
#include "kernels/attention/rotate_impl.h"
#include "kernels/attention/softmax_impl.h"

// Attention of one tile against one chunk of keys, as templates over a Simd class `S` and the
// cache's element type `T`. What a row computes does not depend on the other rows of its tile: keys
// that it does not see get weight zero, and adding zero times a finite value changes nothing. So a
// decode step and a prefill tile agree bit for bit (promise P1).

namespace octavo::kernels {
namespace {

/// Rows of a tile from which widening K and V into panels pays: with 48 it is 4 % faster than
/// direct tiles, with 24 it was 25 % slower.
constexpr int64_t kPanelFromRows = 48;

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
template <class S, class T, bool Rotated = T::kCodes>
void load_queries(const AttentionCall& call, const AttentionTile& tile,
                  const AttentionScratch& scratch) {
  // Without a cap the exponent is taken to base 2: the factor is folded into the query.
  float factor = (call.softcap > 0.0f ? call.scale : call.scale * kLog2e) * T::kFactor;
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

/// While the softmax of a row runs, memory has nothing to do: the first rows of a tile ask for this
/// much of each page's keys of the next chunk, as many rows as a decode step of small groups has.
constexpr size_t kEarlyBytes = 256;
constexpr int64_t kEarlyRows = 3;

template <class S>
void fetch_early(const AttentionCall& call, const ChunkView& next, int64_t row) {
  if (row >= kEarlyRows) return;
  const size_t begin = static_cast<size_t>(row) * kEarlyBytes;
  for (int p = next.page_begin; p < next.page_end; ++p) {
    for (size_t i = begin; i < begin + kEarlyBytes && i < call.v_offset; i += 64) {
      S::prefetch_l2(next.pages[p] + i);
    }
  }
}

/// Weighted sums of V over the pages of `span`, from zero or on top of what is in o: MR rows, ND
/// vectors of 16 dims, the last of `lanes` lanes. These values were asked for while the scores were
/// computed; what is asked for now are the keys of `next` from `early` bytes on, so that memory is
/// never idle.
template <class S, class T, int MR, int ND>
void value_tile(const AttentionCall& call, const std::byte* weights, size_t weight_stride,
                const ChunkView& view, const KeySpan& span, const ChunkView& next, size_t early,
                bool add, int64_t dim, int lanes, float* o) {
  using F = typename S::F;
  constexpr int kVectors = 16 / T::kParts;  // of tokens in a page
  constexpr auto kBytes = static_cast<size_t>(kElementBytes<S, T>);
  const int64_t o_stride = attention_row_floats(call.head_dim);
  const auto v_stride = static_cast<size_t>(call.head_dim) * 4;
  F sum[MR][ND];
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < ND; ++n) {
      sum[m][n] = add ? S::load(o + m * o_stride + dim + 16 * n) : S::zero();
    }
  }
  // When the last pair holds one key only, its other half may be anything, NaN too.
  const int end = span.key_end / T::kParts;
  const auto vector_at = [&](int p, int t) __attribute__((always_inline)) {
    return view.pages[p] + call.v_offset + 4 * dim + static_cast<size_t>(t) * v_stride;
  };
  const auto weights_at = [&](int p, int t) __attribute__((always_inline)) {
    return weights + kBytes * static_cast<size_t>(16 * p + T::kParts * t);
  };
  const auto load = [&](const std::byte* v, int n) __attribute__((always_inline)) {
    return n == ND - 1 && lanes < 16 ? S::iload_n(v + 64 * n, lanes) : S::iload(v + 64 * n);
  };
  for (int p = span.page_begin; p < span.page_end; ++p) {
    const std::byte* v = vector_at(p, 0);
    const std::byte* w = weights_at(p, 0);
    const int vectors = end - p * kVectors < kVectors ? end - p * kVectors : kVectors;
    const bool fetch = p >= next.page_begin && p < next.page_end;
    for (int t = 0; t < vectors; ++t, v += v_stride, w += kBytes * T::kParts) {
      if (fetch) {
        for (size_t i = early + 64 * static_cast<size_t>(t); i < call.v_offset;
             i += 64 * kVectors) {
          S::prefetch_l2(next.pages[p] + i);
        }
      }
      multiply<S, T, MR, ND>(
          sum, [&](int n) __attribute__((always_inline)) { return load(v, n); }, w, weight_stride);
    }
  }
  if (T::kParts == 2 && span.key_end % 2 != 0) {
    const int p = span.page_end - 1;
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

/// Calls `f` with count as a template argument, anything above Count as Count. Side by side: cases
/// in each other take the compiler longer.
template <int... I, class F>
__attribute__((always_inline)) inline void with_count_of(std::integer_sequence<int, I...>,
                                                         int count, F f) {
  constexpr int kMost = static_cast<int>(sizeof...(I));
  // The last one takes whatever is left.
  (void)(((I + 1 == kMost || count >= kMost - I) && (f.template operator()<kMost - I>(), true)) ||
         ...);
}
template <int Count, class F>
__attribute__((always_inline)) inline void with_count(int count, F f) {
  with_count_of(std::make_integer_sequence<int, Count>{}, count, f);
}

/// A pass of a tile over a chunk: its rows go through the inner loops in groups.
template <class S, class T>
struct TilePass {
  const AttentionCall& call;
  const AttentionTile& tile;
  const ChunkView& view;
  const ChunkView& next;
  const AttentionScratch& scratch;
  const AttentionState& result;
  int64_t num_rows = tile.num_queries * call.group;
  /// Few rows do not pay for a panel; bf16 dots read pages as they are.
  bool has_panels = T::kCodes || (!kPacked<S, T> && num_rows >= kPanelFromRows);
  /// Few rows keep their sums in registers all the way through the chunk.
  int pages_at_once = T::kCodes || num_rows >= kPanelFromRows ? kPanelPages : kAttentionChunkPages;

  /// Of each page of `next`: asked for by fetch_early.
  size_t early_bytes =
      kEarlyBytes * static_cast<size_t>(num_rows < kEarlyRows ? num_rows : kEarlyRows);

  static constexpr size_t kWeightStride =
      kAttentionChunkKeys * static_cast<size_t>(kElementBytes<S, T>);
  int64_t q_stride = call.head_dim * kElementBytes<S, T>;
  int64_t o_stride = attention_row_floats(call.head_dim);

  const std::byte* weights_of(int64_t row) const {
    const std::byte* const all =
        kPacked<S, T> ? scratch.weights : reinterpret_cast<const std::byte*>(scratch.scores);
    return all + static_cast<size_t>(row) * kWeightStride;
  }

  /// Calls f(row, rows, span, add) for each group of rows and what it sees of pages
  /// [page, page + pages); `add`: did it see any page before them?
  template <class F>
  __attribute__((always_inline)) void for_groups(int page, int pages, F f) const {
    const int most = has_panels ? S::kAttentionPanelRows : S::kAttentionRows;
    for (int64_t row = 0; row < num_rows; row += most) {
      const int rows = static_cast<int>(num_rows - row < most ? num_rows - row : most);
      const KeySpan all = span_of_rows(call, tile, view, row, rows);
      KeySpan span = all;
      if (span.page_begin < page) span.page_begin = page;
      if (span.page_end > page + pages) span = {span.page_begin, page + pages, 16 * (page + pages)};
      if (span.page_begin < span.page_end) f(row, rows, span, span.page_begin > all.page_begin);
    }
  }
};

template <class S, class T>
void score_pages(const TilePass<S, T>& pass, bool fetch, int page, int pages) {
  pass.for_groups(
      page,
      pages, [&](int64_t row, int rows, const KeySpan& span, bool) __attribute__((always_inline)) {
        for (int p = span.page_begin; p < span.page_end; p += S::kAttentionPages) {
          const int left = span.page_end - p;
          with_count<S::kAttentionRows>(
              rows, [&]<int MR>() __attribute__((always_inline)) {
                with_count<S::kAttentionPages>(
                    left, [&]<int NP>() __attribute__((always_inline)) {
                      score_tile<S, T, MR, NP>(pass.call, pass.scratch.q + row * pass.q_stride,
                                               pass.view, p, fetch && row == 0,
                                               pass.scratch.scores + row * kAttentionChunkKeys);
                    });
              });
        }
      });
}

template <class S, class T>
void value_pages(const TilePass<S, T>& pass, int page, int pages) {
  const int64_t head_dim = pass.call.head_dim;
  pass.for_groups(
      page, pages,
      [&](int64_t row, int rows, const KeySpan& span, bool add) __attribute__((always_inline)) {
        for (int64_t dim = 0; dim < head_dim; dim += 16 * S::kAttentionDims) {
          const int vectors = static_cast<int>((head_dim - dim + 15) / 16);
          const int most = vectors < S::kAttentionDims ? vectors : S::kAttentionDims;
          const int64_t left = head_dim - dim - 16 * (most - 1);
          const int lanes = left < 16 ? static_cast<int>(left) : 16;
          with_count<S::kAttentionRows>(
              rows, [&]<int MR>() __attribute__((always_inline)) {
                with_count<S::kAttentionDims>(
                    most, [&]<int ND>() __attribute__((always_inline)) {
                      value_tile<S, T, MR, ND>(
                          pass.call, pass.weights_of(row), pass.kWeightStride, pass.view, span,
                          row == 0 && dim == 0 ? pass.next : kNoPages, pass.early_bytes, add, dim,
                          lanes, pass.result.o + row * pass.o_stride);
                    });
              });
        }
      });
}

/// One group of rows against `vectors` of the panel from `first` on.
template <class S, class T>
__attribute__((always_inline)) inline void run_panel(int rows, int first, int vectors, int steps,
                                                     float* panel, int skipped_rows,
                                                     const std::byte* x, size_t x_stride, bool add,
                                                     float* out, int64_t out_stride) {
  constexpr int kVectors = S::kAttentionPages;
  for (int n = first; n < first + vectors; n += kVectors) {
    with_count<S::kAttentionPanelRows>(
        rows, [&]<int MR>() __attribute__((always_inline)) {
          with_count<kVectors>(
              first + vectors - n, [&]<int N>() __attribute__((always_inline)) {
                panel_tile<S, T::kIndex[0] == 1, MR, N>(
                    steps, panel_vector<S>(panel, n) + skipped_rows * 16 * kVectors, x, x_stride,
                    add, out + 16 * n, out_stride);
              });
        });
  }
}

/// Scores by panels of K.
template <class S, class T>
void score_panels(const TilePass<S, T>& pass, int page, int pages) {
  float* const panel = pass.scratch.panel;
  for (int64_t dim = 0; dim < pass.call.head_dim; dim += kPanelDims) {
    const int64_t left = pass.call.head_dim - dim;
    const int dims = left < kPanelDims ? static_cast<int>(left) : kPanelDims;
    if constexpr (T::kCodes) {
      widen_code_keys<S, typename T::Codes>(pass.call, pass.view, page, pages, dim, dims, panel);
    } else {
      widen_keys<S, T>(pass.view, page, pages, dim, dims, panel);
    }
    pass.for_groups(
        page, pages,
        [&](int64_t row, int rows, const KeySpan& span, bool) __attribute__((always_inline)) {
          run_panel<S, T>(rows, span.page_begin - page, span.page_end - span.page_begin, dims,
                          panel, 0, pass.scratch.q + row * pass.q_stride + 4 * dim,
                          static_cast<size_t>(pass.q_stride), dim > 0,
                          pass.scratch.scores + row * kAttentionChunkKeys + 16 * page,
                          kAttentionChunkKeys);
        });
  }
}

/// Weighted sums by panels of V.
template <class S, class T>
void value_panels(const TilePass<S, T>& pass, int page, int pages) {
  float* const panel = pass.scratch.panel;
  for (int64_t dim = 0; dim < pass.call.head_dim; dim += kPanelDims) {
    const int64_t left = pass.call.head_dim - dim;
    const int dims = left < kPanelDims ? static_cast<int>(left) : kPanelDims;
    if constexpr (T::kCodes) {
      widen_code_values<S, typename T::Codes>(pass.call, pass.view, pass.next, pass.early_bytes,
                                              page, pages, dim, dims, panel);
    } else {
      widen_values<S, T>(pass.call, pass.view, page, pages, dim, dims, panel);
    }
    pass.for_groups(
        page, pages,
        [&](int64_t row, int rows, const KeySpan& span, bool add) __attribute__((always_inline)) {
          const int begin = 16 * span.page_begin;
          run_panel<S, T>(rows, 0, (dims + 15) / 16, span.key_end - begin, panel, begin - 16 * page,
                          pass.weights_of(row) + 4 * begin, pass.kWeightStride, add,
                          pass.result.o + row * pass.o_stride + dim, pass.o_stride);
        });
  }
}

/// Do few rows of one-byte codes go without panels?
template <class S, class T>
constexpr bool kHasCodeTiles = T::kCodes&& S::kCodeTiles;

/// Scores without panels; false if the keys hold a NaN.
template <class S, class T>
bool score_codes(const TilePass<S, T>& pass) {
  const int rows = static_cast<int>(pass.num_rows);
  const KeySpan span = span_of_rows(pass.call, pass.tile, pass.view, 0, rows);
  bool is_whole = true;
  with_count<S::kAttentionRows>(
      rows, [&]<int MR>() __attribute__((always_inline)) {
        const auto score = [&]<int NP>(int p) __attribute__((always_inline)) {
          is_whole &= code_score_tile<S, typename T::Codes, MR, NP>(
              pass.call, pass.scratch.q, pass.view, p, pass.scratch.scores);
        };
        int p = span.page_begin;
        for (; p + S::kAttentionPages <= span.page_end; p += S::kAttentionPages) {
          score.template operator()<S::kAttentionPages>(p);
        }
        for (; p < span.page_end; ++p) score.template operator()<1>(p);
      });
  return is_whole;
}

/// Weighted sums without panels; false if the values hold a NaN.
template <class S, class T>
bool value_codes(const TilePass<S, T>& pass) {
  const int rows = static_cast<int>(pass.num_rows);
  const KeySpan span = span_of_rows(pass.call, pass.tile, pass.view, 0, rows);
  bool is_whole = true;
  with_count<S::kAttentionRows>(
      rows, [&]<int MR>() __attribute__((always_inline)) {
        for (int64_t dim = 0; dim < pass.call.head_dim; dim += kCodeDims) {
          is_whole &= code_value_tile<S, typename T::Codes, MR>(
              pass.call, pass.weights_of(0), pass.kWeightStride, pass.view, span, pass.next,
              pass.early_bytes, dim, pass.result.o);
        }
      });
  return is_whole;
}

/// `next`: the pages that this thread reads next. `fetch`: do those of `view` lie in memory, so
/// that they are worth a prefetch?
template <class S, class T>
void run_pages(const AttentionCall& call, const AttentionTile& tile, const ChunkView& view,
               const ChunkView& next, bool fetch, const AttentionScratch& scratch,
               const AttentionState& result) {
  const TilePass<S, T> pass{call, tile, view, next, scratch, result};
  const auto for_pages = [&](auto f) {
    for (int page = view.page_begin; page < view.page_end; page += pass.pages_at_once) {
      const int left = view.page_end - page;
      f(page, left < pass.pages_at_once ? left : pass.pages_at_once);
    }
  };
  const bool has_code_tiles =
      kHasCodeTiles<S, T> && pass.num_rows <= S::kAttentionRows && call.head_dim % kCodeDims == 0;
  const auto score = [&] {
    if constexpr (kHasCodeTiles<S, T>) {
      if (has_code_tiles && score_codes(pass)) return;
    }
    for_pages([&](int page, int pages) {
      if constexpr (!kPacked<S, T>) {
        if (pass.has_panels) return score_panels(pass, page, pages);
      }
      if constexpr (!T::kCodes) score_pages(pass, fetch, page, pages);
    });
  };
  score();
  for (int64_t row = 0; row < pass.num_rows; ++row) result.m[row] = -__builtin_inff();
  pass.for_groups(0, kAttentionChunkPages, [&](int64_t first, int rows, const KeySpan& span, bool) {
    for (int64_t row = first; row < first + rows; ++row) {
      fetch_early<S>(call, next, row);
      softmax_row<S, T>(call, tile, view.key_begin, span, tile.position + row / call.group,
                        scratch.scores + row * kAttentionChunkKeys,
                        scratch.weights + row * kAttentionChunkKeys * 2, result.m + row,
                        result.l + row);
    }
  });
  if constexpr (kHasCodeTiles<S, T>) {
    if (has_code_tiles && value_codes(pass)) return;
  }
  for_pages([&](int page, int pages) {
    if constexpr (!kPacked<S, T>) {
      if (pass.has_panels) return value_panels(pass, page, pages);
    }
    if constexpr (!T::kCodes) value_pages(pass, page, pages);
  });
}

template <class S, class T>
void run_chunk(const AttentionCall& call, const AttentionChunk& chunk, const AttentionChunk& next,
               const AttentionScratch& scratch, const AttentionState& result) {
  run_pages<S, T>(call, *chunk.tile, view_chunk(call, chunk), view_chunk(call, next), true, scratch,
                  result);
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
      const typename S::F l = S::set1(state.l[row] / call.v_scale);
      for (int64_t d = 0; d < call.head_dim; d += 16) {
        const int n = static_cast<int>(call.head_dim - d < 16 ? call.head_dim - d : 16);
        S::store_n(out + d, S::div(S::load(state.o + row * stride + d), l), n);
      }
    }
  }
}

}  // namespace
}  // namespace octavo::kernels
