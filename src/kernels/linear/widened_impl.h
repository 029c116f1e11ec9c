#pragma once

#include "kernels/linear/block_impl.h"
#include "kernels/linear/linear_impl.h"
#include "kernels/simd/fp8_forms.h"

// f32 arithmetic with the formats that take more than an instruction or two to widen. A group of
// panels is widened on the stack, kWidenCols columns at a time, and the sums of up to kChunkRows
// rows pass through memory from there to there: one chain along K for each output, as in f32_tile,
// and one set of tiles for all formats.

namespace octavo::kernels {
namespace {

constexpr int64_t kWidenCols = 256;  // 16 KiB a panel: two of them stay in L1
constexpr int64_t kChunkRows = 128;
static_assert(kWidenCols % kSuperBlock == 0);

/// The formats of block_formats.h, by way of the bytes that the integer products use: d * scale * q
/// is exact, the minimum is added with one rounding, as in GGUF's own dequantisation.
template <class Q>
struct WidenBlocks {
  template <class S, class Use>
  static __attribute__((always_inline)) inline void widen(const LinearCall& call,
                                                          const std::byte* p, int64_t num_cols,
                                                          Use use) {
    using F = typename S::F;
    using I = typename S::I;
    UnpackedBlock blocks[kWidenCols / kQuantBlock];
    unpack_blocks<S, Q>(blocks, p, call, num_cols / kQuantBlock);
    const I mask = S::iset1(255);
    const F zero_point = S::set1(static_cast<float>(Q::kZeroPoint));
    for (int64_t g = 0; g < num_cols / kQuantBlock; ++g) {
      const F a = S::load(blocks[g].a);
      const F b = S::load(blocks[g].b);
      for (int l = 0; l < 8; ++l) {
        const I w = S::iload(blocks[g].weights[l]);
        const F scale = Q::kScales == BlockScales::kHalves && l >= 4 ? b : a;
        for_each_constant<4>([&](auto j) __attribute__((always_inline)) {
          const F q = S::to_f(S::iand(shift<S, -8 * j.value>(w), mask));
          const int64_t k = kQuantBlock * g + 4 * l + j.value;
          if constexpr (Q::kScales == BlockScales::kMin) {
            use(k, S::add(S::mul(q, scale), b));
          } else {
            use(k, S::mul(S::sub(q, zero_point), scale));
          }
        });
      }
    }
  }
};

/// Groups of e4m3 codes with one scale: every code widens exactly, d * q is rounded once.
struct WidenF8 {
  template <class S, class Use>
  static __attribute__((always_inline)) inline void widen(const LinearCall& call,
                                                          const std::byte* p, int64_t num_cols,
                                                          Use use) {
    using F = typename S::F;
    using I = typename S::I;
    const int64_t group = call.group_blocks * kQuantBlock;
    const I upper = S::iset1(static_cast<int32_t>(0xffff0000u));
    for (int64_t begin = 0; begin < num_cols; begin += group) {
      const F d = S::load(reinterpret_cast<const float*>(p));
      p += 64;
      for (int64_t k = begin; k < begin + group; k += 2, p += 32) {
        alignas(64) std::byte pairs[64];
        S::template widen_bytes<E4M3>(pairs, p);
        const I pair = S::iload(pairs);
        use(k, S::mul(d, S::as_f(S::template sll<16>(pair))));
        use(k + 1, S::mul(d, S::as_f(S::iand(pair, upper))));
      }
    }
  }
};

/// [columns][16] weights of a panel.
using Widened = float[kWidenCols][16];
using WidenFn = void (*)(Widened& out, const LinearCall& call, const std::byte* p,
                         int64_t num_cols);

template <class S, class W>
void widen_panel(Widened& out, const LinearCall& call, const std::byte* p, int64_t num_cols) {
  W::template widen<S>(
      call, p, num_cols, [&](int64_t k, typename S::F w) __attribute__((always_inline)) {
        S::store(out[k], w);
      });
}

/// Where a group of panels stands.
template <int NR>
struct alignas(64) WidenedChunk {
  Widened weights[NR];
  float sums[kChunkRows][NR][16];
};

/// Adds `num_cols` columns to the sums of MR rows.
template <class S, int MR, int NR>
void widened_tile(float (*sums)[NR][16], const Widened* weights, const float* x, size_t x_stride,
                  int64_t num_cols) {
  using F = typename S::F;
  F sum[MR][NR];
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) sum[m][n] = S::load(sums[m][n]);
  }
  for (int64_t k = 0; k < num_cols; ++k) {
    F w[NR];
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) w[n] = S::load(weights[n][k]);
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m) {
      const F value = S::set1(x[m * x_stride + static_cast<size_t>(k)]);
#pragma GCC unroll 8
      for (int n = 0; n < NR; ++n) sum[m][n] = S::fma(w[n], value, sum[m][n]);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) S::store(sums[m][n], sum[m][n]);
  }
}

template <class S, int MR, int NR>
void widened_tile_of(int height, float (*sums)[NR][16], const Widened* weights, const float* x,
                     size_t x_stride, int64_t num_cols) {
  if constexpr (MR > 1) {
    if (height < MR) {
      return widened_tile_of<S, MR - 1, NR>(height, sums, weights, x, x_stride, num_cols);
    }
  }
  widened_tile<S, MR, NR>(sums, weights, x, x_stride, num_cols);
}

/// All products of rows [row, row + num_rows) with NR panels, num_rows up to kChunkRows.
template <class S, int NR>
void run_widened(const LinearCall& call, WidenFn widen, int64_t row, int64_t num_rows,
                 int64_t panel) {
  WidenedChunk<NR> chunk;
  for (int64_t m = 0; m < num_rows; ++m) {
    for (int n = 0; n < NR; ++n) S::store(chunk.sums[m][n], S::zero());
  }
  const size_t block_bytes = call.panel_bytes / static_cast<size_t>(call.num_cols / kQuantBlock);
  const std::byte* weight = call.weight + static_cast<size_t>(panel) * call.panel_bytes;
  const size_t x_stride = call.x_row_bytes / sizeof(float);
  const float* x = reinterpret_cast<const float*>(call.x) + static_cast<size_t>(row) * x_stride;
  const int64_t num_tiles = (num_rows + S::kF32Rows - 1) / S::kF32Rows;
  for (int64_t begin = 0; begin < call.num_cols; begin += kWidenCols, x += kWidenCols) {
    const int64_t left = call.num_cols - begin;
    const int64_t count = left < kWidenCols ? left : kWidenCols;
    for (int n = 0; n < NR; ++n) {
      widen(chunk.weights[n], call, weight + n * call.panel_bytes, count);
    }
    weight += kWidenCols / kQuantBlock * block_bytes;
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      const int64_t first = num_rows * tile / num_tiles;
      const int64_t height = num_rows * (tile + 1) / num_tiles - first;
      widened_tile_of<S, S::kF32Rows, NR>(static_cast<int>(height), chunk.sums + first,
                                          chunk.weights, x + static_cast<size_t>(first) * x_stride,
                                          x_stride, count);
    }
  }
  store_sums<S, NR>(call, row, panel, chunk.sums[0][0], num_rows);
}

template <class S, class W>
void run_widening(const LinearCall& call, const LinearRange& range) {
  constexpr int kPanels = S::kF32Panels;
  for (int64_t row = range.row_begin; row < range.row_end; row += kChunkRows) {
    const int64_t left = range.row_end - row;
    const int64_t rows = left < kChunkRows ? left : kChunkRows;
    int64_t panel = range.panel_begin;
    for (; panel + kPanels <= range.panel_end; panel += kPanels) {
      run_widened<S, kPanels>(call, widen_panel<S, W>, row, rows, panel);
    }
    for (; panel < range.panel_end; ++panel) {
      run_widened<S, 1>(call, widen_panel<S, W>, row, rows, panel);
    }
  }
}

}  // namespace
}  // namespace octavo::kernels
