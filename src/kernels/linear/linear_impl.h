#pragma once

#include "kernels/linear/linear_params.h"
#include "kernels/simd/math.h"

// The products, as templates over a Simd class `S`. In every tile each output has one chain of sums
// along K, in the same order: its value does not depend on the tile (promise P1).

namespace octavo::kernels {
namespace {

/// Stores a tile's row of one panel: bias first, then what `out` held.
template <class S>
__attribute__((always_inline)) inline void store_row(const LinearCall& call, int64_t row,
                                                     int64_t panel, typename S::F sum) {
  const int64_t column = panel * kPanelRows;
  float* const out = call.out + (row - call.out_row) * call.out_stride + column - call.out_column;
  const int64_t left = call.num_rows - column;
  if (left >= kPanelRows) {
    if (call.bias != nullptr) sum = S::add(sum, S::load(call.bias + column));
    if (call.add) sum = S::add(S::load(out), sum);
    S::store(out, sum);
    return;
  }
  const int n = static_cast<int>(left);
  if (call.bias != nullptr) sum = S::add(sum, S::load_n(call.bias + column, n));
  if (call.add) sum = S::add(S::load_n(out, n), sum);
  S::store_n(out, sum, n);
}

// ---- int8 dot: Q8_0, Q4_0, Q4_1 ----

struct Q8_0 {
  static constexpr size_t kBlockBytes = 32 + 512;
  static constexpr int kZeroPoint = 128;
  static constexpr bool kHasMin = false;
  static constexpr bool kNibbles = false;
  static constexpr bool kWideScales = false;
};
struct Q4_0 {
  static constexpr size_t kBlockBytes = 32 + 256;
  static constexpr int kZeroPoint = 8;
  static constexpr bool kHasMin = false;
  static constexpr bool kNibbles = true;
  static constexpr bool kWideScales = false;
};
struct Q4_1 {
  static constexpr size_t kBlockBytes = 64 + 256;
  static constexpr int kZeroPoint = 0;
  static constexpr bool kHasMin = true;
  static constexpr bool kNibbles = true;
  static constexpr bool kWideScales = false;
};
/// A 4-bit format unpacked for many rows, in scratch: 16 f32 d (16 f32 m) and a byte a weight. The
/// same numbers, so the same sums.
template <class Q>
struct Unpacked {
  // The same for both, so that scratch has one size; without minima 64 bytes lie idle.
  static constexpr size_t kBlockBytes = kUnpackedBlockBytes;
  static constexpr int kZeroPoint = Q::kZeroPoint;
  static constexpr bool kHasMin = Q::kHasMin;
  static constexpr bool kNibbles = false;
  static constexpr bool kWideScales = true;
};

/// 16 scales (which = 0) or minima (1) of a block.
template <class S, class Q>
__attribute__((always_inline)) inline typename S::F load_scales(const std::byte* block, int which) {
  if constexpr (Q::kWideScales) {
    return S::load(reinterpret_cast<const float*>(block) + 16 * which);
  } else {
    return S::load_f16(block + 32 * which);
  }
}

template <class S, class Q>
__attribute__((always_inline)) inline typename S::I dot(typename S::I acc, typename S::I w,
                                                        typename S::I x) {
  constexpr bool kSmall = Q::kNibbles || Q::kWideScales;  // weights below 16
  return kSmall ? S::dpbusd_nibbles(acc, w, x) : S::dpbusd(acc, w, x);
}

/// Unpacks one panel.
template <class S, class Q>
void unpack_panel(std::byte* out, const std::byte* panel, int64_t num_blocks) {
  using I = typename S::I;
  constexpr int kScales = Q::kHasMin ? 2 : 1;
  const I nibble = S::iset1(0x0f0f0f0f);
  for (int64_t b = 0; b < num_blocks; ++b, panel += Q::kBlockBytes) {
    for (int s = 0; s < kScales; ++s, out += 64) {
      S::store(reinterpret_cast<float*>(out), load_scales<S, Q>(panel, s));
    }
    for (int l = 0; l < 4; ++l, out += 64) {
      const I packed = S::iload(panel + 32 * kScales + 64 * l);
      S::istore(out, S::iand(packed, nibble));
      S::istore(out + 256, S::iand(S::template srl<4>(packed), nibble));
    }
    out += kUnpackedBlockBytes - 64 * kScales - 256;
  }
}

/// What a tile fetches ahead of its successor: `lines` cache lines from `at` on at each step (a
/// block of 32, or 8 pairs of bf16). The next panels' weights are spread evenly over the row tiles
/// of these panels: fetched in a burst, they would be waited for.
struct Prefetch {
  const std::byte* at = nullptr;
  int lines = 0;
};
/// Columns of a step.
constexpr int64_t kInt8StepCols = kQuantBlock;
constexpr int64_t kBf16StepCols = 16;

template <class S>
__attribute__((always_inline)) inline void fetch_lines(Prefetch& prefetch) {
  for (int i = 0; i < prefetch.lines; ++i, prefetch.at += 64) S::prefetch(prefetch.at);
}

template <class S, class Q, int MR, int NR>
void int8_tile(const LinearCall& call, const std::byte* weight, int64_t row, int64_t panel,
               Prefetch prefetch) {
  using F = typename S::F;
  using I = typename S::I;
  F sum[MR][NR];
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) sum[m][n] = S::zero();
  }
  const auto* x = reinterpret_cast<const ActivationBlock*>(call.x + static_cast<size_t>(row) *
                                                                        call.x_row_bytes);
  const size_t x_stride = call.x_row_bytes / sizeof(ActivationBlock);
  constexpr size_t kScales = (Q::kHasMin ? 2 : 1) * (Q::kWideScales ? 64 : 32);
  const I nibble = S::iset1(0x0f0f0f0f);
  const int64_t num_blocks = call.num_cols / kQuantBlock;
  for (int64_t b = 0; b < num_blocks; ++b, weight += Q::kBlockBytes, ++x) {
    fetch_lines<S>(prefetch);
    I acc[MR][NR];
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
      for (int n = 0; n < NR; ++n) {
        acc[m][n] = Q::kHasMin ? S::izero() : S::iset1(x[m * x_stride].c);
      }
    }
#pragma GCC unroll 8
    for (int l = 0; l < (Q::kNibbles ? 4 : 8); ++l) {
      I low[NR], high[NR];
#pragma GCC unroll 8
      for (int n = 0; n < NR; ++n) {
        low[n] = S::iload(weight + n * call.panel_bytes + kScales + 64 * l);
        if constexpr (Q::kNibbles) {
          high[n] = S::iand(S::template srl<4>(low[n]), nibble);
          low[n] = S::iand(low[n], nibble);
        }
      }
#pragma GCC unroll 8
      for (int m = 0; m < MR; ++m) {
        const int8_t* const q = x[m * x_stride].q;
        const I first = S::bcast4(q + 4 * l);
#pragma GCC unroll 8
        for (int n = 0; n < NR; ++n) {
          acc[m][n] = dot<S, Q>(acc[m][n], low[n], first);
        }
        if constexpr (Q::kNibbles) {
          const I second = S::bcast4(q + 16 + 4 * l);
#pragma GCC unroll 8
          for (int n = 0; n < NR; ++n) {
            acc[m][n] = dot<S, Q>(acc[m][n], high[n], second);
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) {
      const F d = load_scales<S, Q>(weight + n * call.panel_bytes, 0);
#pragma GCC unroll 8
      for (int m = 0; m < MR; ++m) {
        const F scale = S::mul(d, S::set1(x[m * x_stride].s));
        sum[m][n] = S::fma(S::to_f(acc[m][n]), scale, sum[m][n]);
      }
      if constexpr (Q::kHasMin) {
        const F min = load_scales<S, Q>(weight + n * call.panel_bytes, 1);
#pragma GCC unroll 8
        for (int m = 0; m < MR; ++m) {
          sum[m][n] = S::fma(min, S::set1(x[m * x_stride].s_sum), sum[m][n]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) store_row<S>(call, row + m, panel + n, sum[m][n]);
  }
}

/// Quantises one row to int8 in blocks of 32, scale = max|x| / 127 (the rule of GGUF's Q8_0, with
/// the scale kept in f32). A block that holds an infinity or a NaN gets the scale NaN: so do its
/// sums.
template <class S, class Q>
void quantise_row(std::byte* out, const float* x, int64_t num_cols) {
  using F = typename S::F;
  using I = typename S::I;
  auto* block = reinterpret_cast<ActivationBlock*>(out);
  const I magnitude = S::iset1(0x7fffffff);
  for (int64_t b = 0; b < num_cols / kQuantBlock; ++b, ++block, x += kQuantBlock) {
    const F x0 = S::load(x);
    const F x1 = S::load(x + 16);
    // As integers the magnitudes order like the floats, with NaN above infinity.
    const int32_t bits =
        S::ireduce_max(S::imax(S::iand(S::as_i(x0), magnitude), S::iand(S::as_i(x1), magnitude)));
    float largest;
    __builtin_memcpy(&largest, &bits, 4);
    float scale = largest / 127.0f;
    float inverse = 127.0f / largest;
    if (!(largest > 1e-35f)) {  // 127 / largest would overflow
      inverse = 0.0f;
      scale = 0.0f;
    }
    if (bits >= 0x7f800000) {
      inverse = 0.0f;
      scale = __builtin_nanf("");
    }
    const I q0 = S::round_i(S::mul(x0, S::set1(inverse)));
    const I q1 = S::round_i(S::mul(x1, S::set1(inverse)));
    S::store_low_bytes(block->q, q0);
    S::store_low_bytes(block->q + 16, q1);
    const int32_t sum = bits >= 0x7f800000 ? 0 : S::ireduce_add(S::iadd(q0, q1));
    block->s = scale;
    if constexpr (Q::kHasMin) {
      block->s_sum = scale * static_cast<float>(sum);
    } else {
      block->c = -Q::kZeroPoint * sum;
    }
  }
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
  for (int64_t k = 0; k < num_pairs; ++k, weight += 64, x += S::kBf16Dot ? 4 : 8) {
    if (k % (kBf16StepCols / 2) == 0) fetch_lines<S>(prefetch);
    if constexpr (S::kBf16Dot) {
      typename S::I w[NR];
#pragma GCC unroll 8
      for (int n = 0; n < NR; ++n) w[n] = S::iload(weight + n * call.panel_bytes);
#pragma GCC unroll 8
      for (int m = 0; m < MR; ++m) {
        const typename S::I pair = S::bcast4(x + m * call.x_row_bytes);
#pragma GCC unroll 8
        for (int n = 0; n < NR; ++n) sum[m][n] = S::dpbf16(sum[m][n], w[n], pair);
      }
    } else {
      // Odd before even, as vdpbf16ps does. The second load of the weights costs less than the
      // registers that would keep them.
#pragma GCC unroll 2
      for (int half = 1; half >= 0; --half) {
        F w[NR];
#pragma GCC unroll 8
        for (int n = 0; n < NR; ++n) {
          const typename S::I pair = S::iload(weight + n * call.panel_bytes);
          w[n] = S::as_f(half == 1 ? S::iand(pair, S::iset1(static_cast<int32_t>(0xffff0000u)))
                                   : S::template sll<16>(pair));
        }
#pragma GCC unroll 8
        for (int m = 0; m < MR; ++m) {
          float value;
          __builtin_memcpy(&value, x + m * call.x_row_bytes + 4 * half, 4);
#pragma GCC unroll 8
          for (int n = 0; n < NR; ++n) sum[m][n] = S::fma(w[n], S::set1(value), sum[m][n]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) store_row<S>(call, row + m, panel + n, sum[m][n]);
  }
}

/// Rounds one row to bf16, padded to an even count with a zero: pairs for the dot instruction, f32
/// where there is none.
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
      S::store_n(reinterpret_cast<float*>(out) + i, S::round_bf16(v), stored);
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

// ---- f32 arithmetic: formats that widen in an instruction or two (the others: widened_impl.h)
// ----

/// Widens kStep elements along K of one panel; `use(j, w)` gets the 16 weights of element j.
struct WeightF32 {
  static constexpr int kStep = 1;
  static constexpr size_t kStepBytes = 64;
  template <class S, class Use>
  static __attribute__((always_inline)) inline void widen(const std::byte* p, Use use) {
    use(0, S::load(reinterpret_cast<const float*>(p)));
  }
};
struct WeightF16 {
  static constexpr int kStep = 1;
  static constexpr size_t kStepBytes = 32;
  template <class S, class Use>
  static __attribute__((always_inline)) inline void widen(const std::byte* p, Use use) {
    use(0, S::load_f16(p));
  }
};
struct WeightBF16 {
  static constexpr int kStep = 2;
  static constexpr size_t kStepBytes = 64;
  template <class S, class Use>
  static __attribute__((always_inline)) inline void widen(const std::byte* p, Use use) {
    const typename S::I w = S::iload(p);
    use(0, S::as_f(S::template sll<16>(w)));
    use(1, S::as_f(S::iand(w, S::iset1(static_cast<int32_t>(0xffff0000u)))));
  }
};
template <class S, class W, int MR, int NR>
void f32_tile(const LinearCall& call, const std::byte* weight, int64_t row, int64_t panel,
              Prefetch) {
  using F = typename S::F;
  F sum[MR][NR];
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) sum[m][n] = S::zero();
  }
  const auto* x =
      reinterpret_cast<const float*>(call.x + static_cast<size_t>(row) * call.x_row_bytes);
  const size_t x_stride = call.x_row_bytes / sizeof(float);
  int64_t k = 0;
  for (; k + W::kStep <= call.num_cols; k += W::kStep, weight += W::kStepBytes) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) {
      W::template widen<S>(
          weight + n * call.panel_bytes, [&](int j, F w) __attribute__((always_inline)) {
#pragma GCC unroll 8
            for (int m = 0; m < MR; ++m) {
              sum[m][n] = S::fma(w, S::set1(x[m * x_stride + k + j]), sum[m][n]);
            }
          });
    }
  }
  if (k < call.num_cols) {  // the odd last column of bf16: its partner in the panel is padding
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) {
      W::template widen<S>(
          weight + n * call.panel_bytes, [&](int j, F w) __attribute__((always_inline)) {
#pragma GCC unroll 8
            for (int m = 0; m < MR; ++m) {
              if (j == 0) sum[m][n] = S::fma(w, S::set1(x[m * x_stride + k]), sum[m][n]);
            }
          });
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) store_row<S>(call, row + m, panel + n, sum[m][n]);
  }
}

// ---- which tiles cover a range ----

/// `weight`: the first of the tile's panels, call.panel_bytes apart.
using TileFn = void (*)(const LinearCall& call, const std::byte* weight, int64_t row, int64_t panel,
                        Prefetch prefetch);

template <class S, class Q>
struct Int8Tiles {
  static constexpr int kRows = S::kInt8Rows, kPanels = S::kInt8Panels;
  static constexpr int kGemvPanels = S::kInt8GemvPanels;
  static constexpr int64_t kStepCols = kInt8StepCols;
  template <int MR, int NR>
  static constexpr TileFn kTile = int8_tile<S, Q, MR, NR>;
};
/// The same for many rows: panels are unpacked once.
template <class S, class Q>
struct UnpackingTiles : Int8Tiles<S, Unpacked<Q>> {
  static_assert(S::kInt8Panels <= kUnpackPanels);
  using Few = Int8Tiles<S, Q>;
  static constexpr auto kUnpack = unpack_panel<S, Q>;
};
template <class S>
struct Bf16Tiles {
  static constexpr int kRows = S::kBf16Rows, kPanels = S::kBf16Panels;
  static constexpr int kGemvPanels = S::kBf16GemvPanels;
  static constexpr int64_t kStepCols = kBf16StepCols;
  template <int MR, int NR>
  static constexpr TileFn kTile = bf16_tile<S, MR, NR>;
};
template <class S, class W>
struct F32Tiles {
  static constexpr int kRows = S::kF32Rows, kPanels = S::kF32Panels;
  static constexpr int kGemvPanels = S::kF32GemvPanels;
  static constexpr int64_t kStepCols = 0;  // compute-bound: fetches nothing
  template <int MR, int NR>
  static constexpr TileFn kTile = f32_tile<S, W, MR, NR>;
};

/// Table of the tiles of one height: widths 1..max.
template <class T, int MR, int NR>
TileFn tile_of_width(int width) {
  if constexpr (NR == 1) {
    (void)width;
    return T::template kTile<MR, 1>;
  } else {
    return width == NR ? T::template kTile<MR, NR> : tile_of_width<T, MR, NR - 1>(width);
  }
}
template <class T, int MR>
TileFn tile_of(int height, int width) {
  constexpr int kWidth = MR == 1 && T::kGemvPanels > T::kPanels ? T::kGemvPanels : T::kPanels;
  if (height == MR) return tile_of_width<T, MR, kWidth>(width);
  if constexpr (MR > 1) return tile_of<T, MR - 1>(height, width);
  return nullptr;
}

/// The share of tile `tile` of `num_tiles` in fetching the panels from `panel` on.
template <class T>
Prefetch share_of_prefetch(const LinearCall& call, int64_t panel, int64_t panel_end, int64_t width,
                           int64_t tile, int64_t num_tiles) {
  // Measured on Sapphire Rapids, one thread, SmolLM2's Q4_1 matrices, with against without: 1 row
  // 11.1 to 8.9 GB/s, 8 rows 9.5 to 6.5, 64 rows 350 to 305 GOP/s.
  constexpr int64_t kMaxTiles = 32;
  if (T::kStepCols == 0 || panel >= panel_end || num_tiles > kMaxTiles) return {};
  const int64_t panels = panel_end - panel < width ? panel_end - panel : width;
  const int64_t steps = call.num_cols / (T::kStepCols > 0 ? T::kStepCols : 1) + 1;
  const int64_t lines = panels * static_cast<int64_t>(call.panel_bytes) / 64;
  const int64_t per_step = (lines + num_tiles * steps - 1) / (num_tiles * steps);
  const std::byte* const begin = call.weight + static_cast<size_t>(panel) * call.panel_bytes;
  return {begin + tile * steps * per_step * 64, static_cast<int>(per_step)};
}

/// Panels outside, rows inside: a panel group stays in L2 while the rows stream past it. Rows are
/// shared out evenly between tiles (16 = 4+4+4+4, not 5+5+5+1).
template <class T>
void run_tiles(const LinearCall& call, const LinearRange& range) {
  const int64_t num_rows = range.row_end - range.row_begin;
  const int64_t num_tiles = (num_rows + T::kRows - 1) / T::kRows;
  const int64_t max_width = num_rows == 1 ? T::kGemvPanels : T::kPanels;
  for (int64_t panel = range.panel_begin; panel < range.panel_end;) {
    const int64_t left = range.panel_end - panel;
    const int width = static_cast<int>(left < max_width ? left : max_width);
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      const int64_t begin = num_rows * tile / num_tiles;
      const int64_t end = num_rows * (tile + 1) / num_tiles;
      tile_of<T, T::kRows>(static_cast<int>(end - begin), width)(
          call, call.weight + static_cast<size_t>(panel) * call.panel_bytes,
          range.row_begin + begin, panel,
          share_of_prefetch<T>(call, panel + width, range.panel_end, max_width, tile, num_tiles));
    }
    panel += width;
  }
}

/// As run_tiles of T::Few; from kUnpackRows rows on, every panel group is unpacked into the
/// thread's scratch first, and the tiles read that.
template <class T>
void run_unpacking(const LinearCall& call, const LinearRange& range) {
  const int64_t num_rows = range.row_end - range.row_begin;
  if (num_rows < kUnpackRows) return run_tiles<typename T::Few>(call, range);
  const int64_t num_tiles = (num_rows + T::kRows - 1) / T::kRows;
  const int64_t num_blocks = call.num_cols / kQuantBlock;
  LinearCall unpacked = call;
  unpacked.panel_bytes = static_cast<size_t>(num_blocks) * kUnpackedBlockBytes;
  std::byte* const scratch =
      call.scratch + static_cast<size_t>(range.thread_index) * call.scratch_bytes;
  for (int64_t panel = range.panel_begin; panel < range.panel_end;) {
    const int64_t left = range.panel_end - panel;
    const int width = static_cast<int>(left < T::kPanels ? left : T::kPanels);
    for (int i = 0; i < width; ++i) {
      T::kUnpack(scratch + static_cast<size_t>(i) * unpacked.panel_bytes,
                 call.weight + static_cast<size_t>(panel + i) * call.panel_bytes, num_blocks);
    }
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      const int64_t begin = num_rows * tile / num_tiles;
      const int64_t end = num_rows * (tile + 1) / num_tiles;
      tile_of<T, T::kRows>(static_cast<int>(end - begin), width)(
          unpacked, scratch, range.row_begin + begin, panel,
          share_of_prefetch<typename T::Few>(call, panel + width, range.panel_end, T::kPanels, tile,
                                             num_tiles));
    }
    panel += width;
  }
}

/// What this file computes; with S::kBytesOnly products of bytes alone, the rest is nullptr.
template <class S>
constexpr LinearKernels linear_kernels() {
  LinearKernels kernels{};
  kernels.native[3] = run_tiles<Int8Tiles<S, Q8_0>>;
  kernels.native[4] = run_unpacking<UnpackingTiles<S, Q4_0>>;
  kernels.native[5] = run_unpacking<UnpackingTiles<S, Q4_1>>;
  if constexpr (!S::kBytesOnly) {
    kernels.native[0] = kernels.f32[0] = run_tiles<F32Tiles<S, WeightF32>>;
    kernels.native[1] = kernels.f32[1] = run_tiles<F32Tiles<S, WeightF16>>;
    kernels.native[2] = run_tiles<Bf16Tiles<S>>;
    kernels.f32[2] = run_tiles<F32Tiles<S, WeightBF16>>;
    kernels.prepare[1] = round_row_f16<S>;
    kernels.prepare[2] = round_row_bf16<S>;
    kernels.prepare[3] = quantise_row<S, Q8_0>;
    kernels.prepare[4] = quantise_row<S, Q4_0>;
    kernels.prepare[5] = quantise_row<S, Q4_1>;
    kernels.bf16_bytes = S::kBf16Dot ? 2 : 4;
  }
  return kernels;
}

}  // namespace
}  // namespace octavo::kernels
