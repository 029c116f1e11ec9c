#pragma once

#include "kernels/linear/linear_params.h"
#include "kernels/simd/math.h"

// The products, as templates over a Simd class `S`. In every tile each output has one chain of sums
// along K, in the same order: its value does not depend on the tile (promise P1).

namespace octavo::kernels {
namespace {

/// Stores sums [num_rows][NR panels] from memory, without the columns beyond the matrix's last.
/// (Once for all heights of tiles: not cloned for each. clang does not clone and has no name for
/// it.)
template <class S, int NR>
#if !defined(__clang__)
__attribute__((noclone))
#endif
__attribute__((noinline)) void
store_sums(const LinearCall& call, int64_t row, int64_t panel, const float* sums,
           int64_t num_rows) {
  const int64_t column = panel * kPanelRows;
  const int64_t left = call.num_rows - column;
  const int64_t columns = left < NR * kPanelRows ? left : NR * kPanelRows;
  for (int64_t m = 0; m < num_rows; ++m) {
    float* const out =
        call.out + (row + m - call.out_row) * call.out_stride + column - call.out_column;
    for (int64_t i = 0; i < columns; i += kPanelRows) {
      const int n = static_cast<int>(columns - i < kPanelRows ? columns - i : kPanelRows);
      typename S::F sum = S::load(sums + m * NR * kPanelRows + i);
      if (call.bias != nullptr) sum = S::add(sum, S::load_n(call.bias + column + i, n));
      if (call.add) sum = S::add(S::load_n(out + i, n), sum);
      S::store_n(out + i, sum, n);
    }
  }
}

/// What a tile's sums start from: the products of what was taken out of the rows. (Added at a
/// tile's end they would be waited for: 1 % more time.)
template <class S, int MR, int NR, class Sums>
__attribute__((always_inline)) inline void start_sums(const LinearCall& call, int64_t row,
                                                      Sums& sums) {
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) sums.set(m, n, S::zero());
  }
  if (call.taken.rows == nullptr) return;
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
    const TakenOut& of_row = call.taken.rows[row + m];
    const typename S::F value = S::set1(of_row.value);
    const float* const weights = call.taken_weights + int64_t{of_row.slot} * kTakenStride;
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) {
      sums.set(m, n, S::mul(value, S::load(weights + n * kPanelRows)));
    }
  }
}

/// Stores a tile: bias first, then what `out` held.
template <class S, int MR, int NR>
__attribute__((always_inline)) inline void store_tile(const LinearCall& call, int64_t row,
                                                      int64_t panel, typename S::F (&sum)[MR][NR]) {
  const int64_t column = panel * kPanelRows;
  if (call.num_rows - column < NR * kPanelRows) {
    alignas(64) float sums[MR * NR * kPanelRows];
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
      for (int n = 0; n < NR; ++n) S::store(sums + (m * NR + n) * kPanelRows, sum[m][n]);
    }
    return store_sums<S, NR>(call, row, panel, sums, MR);
  }
  // Read before the stores: for all that the compiler knows, they change the call.
  const int64_t stride = call.out_stride;
  float* const out = call.out + (row - call.out_row) * stride + column - call.out_column;
  const bool add = call.add;
  if (call.bias != nullptr) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) {
      const typename S::F bias = S::load(call.bias + column + n * kPanelRows);
#pragma GCC unroll 8
      for (int m = 0; m < MR; ++m) sum[m][n] = S::add(sum[m][n], bias);
    }
  }
  if (add) {
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
      for (int n = 0; n < NR; ++n) {
        sum[m][n] = S::add(S::load(out + m * stride + n * kPanelRows), sum[m][n]);
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) S::store(out + m * stride + n * kPanelRows, sum[m][n]);
  }
}

// ---- what tiles share ----

/// What a tile fetches ahead of its successor: `lines` cache lines from `at` on at each step (a
/// block of 32, or 8 pairs of bf16). The next panels' weights are spread evenly over the row tiles
/// of these panels: fetched in a burst, they would be waited for.
struct Prefetch {
  const std::byte* at = nullptr;
  int lines = 0;
};
/// Columns of a step.
constexpr int64_t kBf16StepCols = 16;

template <class S>
__attribute__((always_inline)) inline void fetch_lines(Prefetch& prefetch) {
  for (int i = 0; i < prefetch.lines; ++i, prefetch.at += 64) S::prefetch(prefetch.at);
}

/// How far ahead of itself one row's tile of float panels fetches each of them. It reads NR streams
/// from memory, and fetching the next panels instead, or into L2, leaves a quarter of the bandwidth
/// unused. Sapphire Rapids, two threads, 256 MiB, four panels of 576 columns: none 30 GB/s, the
/// next panels 29, their lines into L2 33, own lines 512 bytes ahead 36.6, 1.5 KiB 37.7, 4 KiB 35;
/// plain reading 38 to 39.
constexpr int64_t kAheadBytes = 1536;

/// Fetches what lies kAheadBytes behind `weight` in each of NR panels; behind their end, of the
/// panels from `next` on, unless there are none. `left`: bytes of a panel from `weight` on.
template <class S, int NR>
__attribute__((always_inline)) inline void fetch_ahead(const LinearCall& call,
                                                       const std::byte* weight, int64_t left,
                                                       const std::byte* next) {
  const std::byte* at = weight + kAheadBytes;
  if (left <= kAheadBytes && next != nullptr) at = next + (kAheadBytes - left);
#pragma GCC unroll 8
  for (int n = 0; n < NR; ++n) S::prefetch(at + n * call.panel_bytes);
}

// ---- bf16 dot ----

template <class S, int MR, int NR>
void bf16_tile(const LinearCall& call, const std::byte* weight, int64_t row, int64_t panel,
               Prefetch prefetch) {
  using F = typename S::F;
  F sum[MR][NR];
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) sum[m][n] = S::zero();
  }
  const std::byte* x = call.x + static_cast<size_t>(row) * call.x_row_bytes;
  const int64_t num_pairs = (call.num_cols + 1) / 2;
  for (int64_t k = 0; k < num_pairs; ++k, weight += 64, x += 4) {
    if constexpr (MR == 1) {
      fetch_ahead<S, NR>(call, weight, (num_pairs - k) * 64, prefetch.at);
    } else {
      if (k % (kBf16StepCols / 2) == 0) fetch_lines<S>(prefetch);
    }
    typename S::I w[NR];
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) w[n] = S::iload(weight + n * call.panel_bytes);
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m) {
      const typename S::I pair = S::bcast4(x + m * call.x_row_bytes);
#pragma GCC unroll 8
      for (int n = 0; n < NR; ++n) sum[m][n] = S::dpbf16(sum[m][n], w[n], pair);
    }
  }
  store_tile<S, MR, NR>(call, row, panel, sum);
}

/// Rounds one row to bf16, padded to an even count with a zero: pairs for the dot instruction.
/// Where there is none f32, the odd of each pair before the even, as the dot takes them.
template <class S>
void round_row_bf16(std::byte* out, const float* x, int64_t num_cols) {
  const int64_t padded = (num_cols + 1) / 2 * 2;
  for (int64_t i = 0; i < num_cols; i += 16) {
    const int n = static_cast<int>(num_cols - i < 16 ? num_cols - i : 16);
    const int stored = static_cast<int>(padded - i < 16 ? padded - i : 16);
    const typename S::F v = n == 16 ? S::load(x + i) : S::load_n(x + i, n);
    if constexpr (S::kBf16Dot) {
      std::byte halves[32];
      S::store_low_halves(halves, S::bf16_bits(v));
      __builtin_memcpy(out + 2 * i, halves, static_cast<size_t>(2 * stored));
    } else {
      S::store_n(reinterpret_cast<float*>(out) + i, S::template xor_lanes<1>(S::round_bf16(v)),
                 stored);
    }
  }
}

/// Rounds one row to f16 and back.
template <class S>
void round_row_f16(std::byte* out, const float* x, int64_t num_cols) {
  auto* to = reinterpret_cast<float*>(out);
  int64_t i = 0;
  for (; i + 16 <= num_cols; i += 16) S::store(to + i, S::round_f16(S::load(x + i)));
  if (i < num_cols) {
    const int left = static_cast<int>(num_cols - i);
    S::store_n(to + i, S::round_f16(S::load_n(x + i, left)), left);
  }
}

/// All rows, one after another.
template <void (*kPrepareRow)(std::byte* out, const float* x, int64_t num_cols)>
void prepare_each(const RowsToPrepare& rows) {
  for (int64_t row = 0; row < rows.num_rows; ++row) {
    kPrepareRow(rows.out + static_cast<size_t>(row) * rows.out_row_bytes,
                rows.x + row * rows.x_stride, rows.num_cols);
  }
}

// ---- which tiles cover a range ----

/// `weight`: the first of the tile's panels, call.panel_bytes apart.
using TileFn = void (*)(const LinearCall& call, const std::byte* weight, int64_t row, int64_t panel,
                        Prefetch prefetch);

template <class S>
struct Bf16Tiles {
  static constexpr int kRows = S::kBf16Rows, kPanels = S::kBf16Panels;
  static constexpr int kGemvPanels = S::kBf16GemvPanels;
  static constexpr int kLeastRows = 1;
  static constexpr bool kPairsOnly = false;
  static constexpr bool kWidensTaken = false;  // of bytes alone is anything taken out
  static constexpr int64_t kStepCols = kBf16StepCols;
  template <int MR, int NR>
  static constexpr TileFn kTile = bf16_tile<S, MR, NR>;
};

/// Table of the tiles of one height: widths 1..max, or max alone.
template <class T, int MR, int NR>
auto tile_of_width(int width) {
  if constexpr (NR == 1) {
    (void)width;
    return T::template kTile<MR, 1>;
  } else if constexpr (T::kPairsOnly) {
    (void)width;
    return T::template kTile<MR, NR>;
  } else {
    return width == NR ? T::template kTile<MR, NR> : tile_of_width<T, MR, NR - 1>(width);
  }
}
template <class T, int MR>
auto tile_of(int height, int width) {
  // Shared out evenly, two rows and more leave one alone only to tiles of two.
  constexpr bool kGemvOnly = MR == 1 && T::kPairsOnly && T::kRows > 2;
  constexpr int kWidth =
      MR == 1 && (kGemvOnly || T::kGemvPanels > T::kPanels) ? T::kGemvPanels : T::kPanels;
  if constexpr (MR > T::kLeastRows) {
    if (height < MR) return tile_of<T, MR - 1>(height, width);
  }
  return tile_of_width<T, MR, kWidth>(width);
}

/// The share of tile `tile` of `num_tiles` in fetching the panels from `panel` on.
template <class T>
Prefetch share_of_prefetch(const LinearCall& call, const LinearRange& range, int64_t panel,
                           int64_t width, int64_t tile, int64_t num_tiles) {
  // Measured on Sapphire Rapids, one thread, SmolLM2's Q4_1 matrices, with against without: 1 row
  // 11.1 to 8.9 GB/s, 8 rows 9.5 to 6.5, 64 rows 350 to 305 GOP/s.
  const std::byte* begin = call.weight + static_cast<size_t>(panel) * call.panel_bytes;
  int64_t left = range.panel_end - panel;
  if (left <= 0) {
    begin = range.next_weight;
    left = range.next_panels;
  }
  if (left <= 0) return {};
  const int64_t panels = left < width ? left : width;
  const int64_t steps = call.num_cols / T::kStepCols + 1;
  const int64_t lines = panels * static_cast<int64_t>(call.panel_bytes) / 64;
  const int64_t per_step = (lines + num_tiles * steps - 1) / (num_tiles * steps);
  const int64_t first = tile * steps * per_step;
  if (first >= lines) return {};  // many tiles: the first ones have fetched all
  return {begin + first * 64, static_cast<int>(per_step)};
}

/// The last panel of a range as both of a pair: what the second one gives is not stored.
inline LinearCall twice_one_panel(LinearCall call, int64_t panel) {
  const int64_t end = (panel + 1) * kPanelRows;
  if (end < call.num_rows) call.num_rows = end;
  call.panel_bytes = 0;
  return call;
}

/// Panels outside, rows inside: a panel group stays in L2 while the rows stream past it. Rows are
/// shared out evenly between tiles (16 = 4+4+4+4, not 5+5+5+1).
template <class T>
void run_tiles(const LinearCall& call, const LinearRange& range) {
  const int64_t num_rows = range.row_end - range.row_begin;
  const int64_t num_tiles = (num_rows + T::kRows - 1) / T::kRows;
  const int64_t max_width = num_rows == 1 ? T::kGemvPanels : T::kPanels;
  LinearCall half;  // a copy for each pair would cost six rows 6 %
  for (int64_t panel = range.panel_begin; panel < range.panel_end;) {
    const int64_t left = range.panel_end - panel;
    const int width = static_cast<int>(left < max_width ? left : max_width);
    if constexpr (T::kWidensTaken) {
      if (call.taken.rows != nullptr) T::widen_taken(call, panel, width);
    }
    const bool is_half = T::kPairsOnly && width < max_width;
    if (is_half) half = twice_one_panel(call, panel);
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      const int64_t begin = num_rows * tile / num_tiles;
      const int64_t end = num_rows * (tile + 1) / num_tiles;
      tile_of<T, T::kRows>(static_cast<int>(end - begin), width)(
          is_half ? half : call, call.weight + static_cast<size_t>(panel) * call.panel_bytes,
          range.row_begin + begin, panel,
          share_of_prefetch<T>(call, range, panel + width, max_width, tile, num_tiles));
    }
    panel += width;
  }
}

}  // namespace
}  // namespace octavo::kernels
