#pragma once

#include "kernels/linear/block_formats.h"
#include "kernels/linear/linear_impl.h"

// f32 arithmetic. F32 panels are multiplied as they lie; others are widened by the tile while rows
// are few, and once for all tiles from then on, some columns at a time, into scratch on the stack.
// Many rows pass one block of columns after the other, so that its weights stay in a cache; their
// sums go through memory from block to block. However it is covered, an output has one chain of
// sums along K in one order (promise P1).

namespace octavo::kernels {
namespace {

// ---- formats that widen in an instruction or two ----

/// kCols columns of a panel take kBytes; `at<S, J>` gives the 16 weights of the J-th to be
/// multiplied. Up to kDirectRows rows are multiplied as they lie.
struct WeightF32 {
  static constexpr int kCols = 1;
  static constexpr size_t kBytes = 64;
  static constexpr int64_t kDirectRows = INT64_MAX;
  template <class S, int J>
  static __attribute__((always_inline)) inline typename S::F at(const std::byte* p) {
    return S::load(reinterpret_cast<const float*>(p));
  }
};
struct WeightF16 {
  static constexpr int kCols = 1;
  static constexpr size_t kBytes = 32;
  static constexpr int64_t kDirectRows = 8;  // widening takes the FMAs' ports twice a vector
  template <class S, int J>
  static __attribute__((always_inline)) inline typename S::F at(const std::byte* p) {
    return S::load_f16(p);
  }
};
/// Odd before even, as vdpbf16ps does, or in their own order. The second load of the pairs costs
/// less than the registers that would keep them.
template <bool kOddFirst>
struct WeightBF16 {
  static constexpr int kCols = 2;
  static constexpr size_t kBytes = 64;
  // Widening costs one instruction for eight FMAs. In its own order, for float32 only, it is rare.
  static constexpr int64_t kDirectRows = kOddFirst ? 64 : 1;
  template <class S, int J>
  static __attribute__((always_inline)) inline typename S::F at(const std::byte* p) {
    const typename S::I pair = S::iload(p);
    if constexpr ((J == 1) != kOddFirst) {
      return S::as_f(S::iand(pair, S::iset1(static_cast<int32_t>(0xffff0000u))));
    } else {
      return S::as_f(S::template sll<16>(pair));
    }
  }
};

// ---- a tile ----

/// A block of columns as a tile meets it.
struct F32Block {
  const std::byte* weight;  // the first of NR panels, panel_bytes apart
  size_t panel_bytes;
  const float* x;  // its columns of the first of MR rows
  size_t x_stride;
  int64_t num_cols;  // a multiple of the format's kCols
  float* sums;       // [MR][NR][16], from block to block
  bool is_first, is_last;
  // What is read next is fetched on the way: every `fetch_cols` (a power of two) columns `lines`
  // cache lines from `next` on, of each of NR panels that lie next_bytes apart.
  const std::byte* next;
  size_t next_bytes;
  int64_t fetch_cols;
  int64_t lines;
  // Or, of one row of panels as they lie, its own lines are (fetch_ahead): bytes of a panel from
  // `weight` on, and `next` are the panels behind it.
  int64_t left;
};

template <class S, class W, int MR, int NR>
__attribute__((noinline)) void f32_tile(const LinearCall& call, const F32Block& block, int64_t row,
                                        int64_t panel) {
  using F = typename S::F;
  F sum[MR][NR];
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) sum[m][n] = S::zero();
  }
  if (!block.is_first) {
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
      for (int n = 0; n < NR; ++n) sum[m][n] = S::load(block.sums + (m * NR + n) * kPanelRows);
    }
  }
  const std::byte* weight = block.weight;
  const size_t panel_bytes = block.panel_bytes;
  const float* x = block.x;
  const size_t x_stride = block.x_stride;
  const std::byte* next = block.next;
  const int64_t fetch_mask = block.fetch_cols - 1;
  for (int64_t k = 0; k < block.num_cols; k += W::kCols, weight += W::kBytes, x += W::kCols) {
    if constexpr (MR == 1) {
      constexpr auto kLineCols = static_cast<int64_t>(64 / W::kBytes * W::kCols);
      if (block.left > 0 && k % kLineCols == 0) {
        fetch_ahead<S, NR>(call, weight, block.left - k / kLineCols * 64, block.next);
      }
    }
    if ((k & fetch_mask) == 0) {
      for (int64_t i = 0; i < block.lines; ++i, next += 64) {
#pragma GCC unroll 8
        for (int n = 0; n < NR; ++n) S::prefetch_l2(next + n * block.next_bytes);
      }
    }
    for_each_constant<W::kCols>([&](auto j) __attribute__((always_inline)) {
      F w[NR];
#pragma GCC unroll 8
      for (int n = 0; n < NR; ++n) w[n] = W::template at<S, j.value>(weight + n * panel_bytes);
#pragma GCC unroll 8
      for (int m = 0; m < MR; ++m) {
        const F value = S::set1(x[m * x_stride + j.value]);
#pragma GCC unroll 8
        for (int n = 0; n < NR; ++n) sum[m][n] = S::fma(w[n], value, sum[m][n]);
      }
    });
  }
  if (block.is_last) return store_tile<S, MR, NR>(call, row, panel, sum);
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) S::store(block.sums + (m * NR + n) * kPanelRows, sum[m][n]);
  }
}

using F32TileFn = void (*)(const LinearCall& call, const F32Block& block, int64_t row,
                           int64_t panel);

template <class S, class W>
struct F32Tiles {
  static constexpr int kRows = W::kDirectRows < S::kF32Rows ? W::kDirectRows : S::kF32Rows;
  static constexpr int kPanels = S::kF32Panels;
  static constexpr int kGemvPanels = S::kF32GemvPanels;
  static constexpr int kLeastRows = 1;
  static constexpr bool kPairsOnly = false;
  template <int MR, int NR>
  static constexpr F32TileFn kTile = f32_tile<S, W, MR, NR>;
};

// ---- how tiles cover a range ----

/// Columns of a block that tiles read from the packed panels: the next one is fetched into L2
/// meanwhile, 64 KiB a panel.
constexpr int64_t kBlockCols = 1024;
/// Columns widened at a time: three panels of 128 stay in L1 beside rows of x. Super-blocks are
/// widened as a whole.
constexpr int64_t kWidenCols = 128;
static_assert(kSuperBlock == 2 * kWidenCols);
/// Rows of which sums are kept.
constexpr int64_t kChunkRows = 128;

/// Writes `num_cols` columns of a panel from `p` on as [columns][16].
using WidenFn = void (*)(float* out, const LinearCall& call, const std::byte* p, int64_t num_cols);

/// How a format's panels reach the tiles.
struct F32Source {
  WidenFn widen;       // nullptr: they are read as they lie
  int64_t block_cols;  // columns at a time
  size_t block_bytes;  // that many columns of a packed panel
  int64_t width;       // panels at a time
};

struct alignas(64) F32Scratch {
  float sums[kChunkRows * 3 * kPanelRows];
  float weights[2 * kSuperBlock * kPanelRows];
};

/// The rows and panels that pass by together.
struct F32Group {
  int64_t row, num_rows;
  int64_t panel;
  int width;
  const std::byte* next;  // what follows the panels, or nullptr
};

/// How the tiles of a block share in fetching so many bytes of each panel: evenly, because what is
/// fetched in a burst is waited for.
struct FetchPlan {
  int64_t lines;  // in all
  int64_t cols, lines_at_once, lines_of_tile;
};
inline FetchPlan plan_fetch(size_t bytes, int64_t num_cols, int64_t num_tiles) {
  FetchPlan plan{static_cast<int64_t>(bytes + 63) / 64, 1, 0, 0};
  while (plan.cols * 2 * plan.lines <= num_tiles * num_cols) plan.cols *= 2;
  const int64_t steps = (num_cols + plan.cols - 1) / plan.cols;
  plan.lines_at_once = (plan.lines + num_tiles * steps - 1) / (num_tiles * steps);
  plan.lines_of_tile = plan.lines_at_once * steps;
  return plan;
}

/// All products of a group, one block of columns after the other.
template <class T>
void multiply_group(const LinearCall& call, const F32Source& source, const F32Group& group,
                    F32Scratch& scratch) {
  static_assert(T::kPanels <= 3);
  const int64_t num_tiles = (group.num_rows + T::kRows - 1) / T::kRows;
  const int64_t least_height = group.num_rows / num_tiles;
  const int64_t higher_tiles = group.num_rows % num_tiles;
  const std::byte* weight = call.weight + static_cast<size_t>(group.panel) * call.panel_bytes;
  F32Block block{};
  block.x_stride = call.x_row_bytes / sizeof(float);
  block.next_bytes = call.panel_bytes;
  const float* x =
      reinterpret_cast<const float*>(call.x) + static_cast<size_t>(group.row) * block.x_stride;
  for (int64_t left = call.num_cols; left > 0; left -= block.num_cols) {
    block.is_first = left == call.num_cols;
    block.is_last = left <= source.block_cols;
    block.num_cols = block.is_last ? left : source.block_cols;
    block.weight = weight;
    block.panel_bytes = call.panel_bytes;
    if (source.widen != nullptr) {
      const int64_t floats = source.block_cols * kPanelRows;
      for (int n = 0; n < group.width; ++n) {
        source.widen(scratch.weights + n * floats, call, weight + n * call.panel_bytes,
                     block.num_cols);
      }
      block.weight = reinterpret_cast<const std::byte*>(scratch.weights);
      block.panel_bytes = static_cast<size_t>(floats) * sizeof(float);
    }
    weight += source.block_bytes;
    const FetchPlan plan = plan_fetch(source.block_bytes, block.num_cols, num_tiles);
    const std::byte* const next = block.is_last ? group.next : weight;
    block.fetch_cols = plan.cols;
    block.x = x;
    block.sums = scratch.sums;
    int64_t row = group.row;
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      const int64_t fetched = tile * plan.lines_of_tile;
      block.lines = next == nullptr || fetched >= plan.lines ? 0 : plan.lines_at_once;
      block.next = block.lines == 0 ? nullptr : next + fetched * 64;
      if (group.num_rows == 1 && source.widen == nullptr) {
        block.lines = 0;
        block.left = left * static_cast<int64_t>(source.block_bytes) / source.block_cols;
        block.next = group.next;
      }
      const int64_t height = tile < higher_tiles ? least_height + 1 : least_height;
      tile_of<T, T::kRows>(static_cast<int>(height), group.width)(call, block, row, group.panel);
      row += height;
      block.x += static_cast<size_t>(height) * block.x_stride;
      block.sums += height * group.width * kPanelRows;
    }
    x += block.num_cols;
  }
}

/// Panels outside, rows inside.
template <class T>
void run_f32(const LinearCall& call, const LinearRange& range, const F32Source& source) {
  F32Scratch scratch;
  F32Group group{};
  for (group.row = range.row_begin; group.row < range.row_end; group.row += group.num_rows) {
    const int64_t rows = range.row_end - group.row;
    group.num_rows = rows < kChunkRows ? rows : kChunkRows;
    for (group.panel = range.panel_begin; group.panel < range.panel_end;) {
      const int64_t left = range.panel_end - group.panel;
      group.width = static_cast<int>(left < source.width ? left : source.width);
      const int64_t end = group.panel + group.width;
      if (end < range.panel_end) {
        group.next = call.weight + static_cast<size_t>(end) * call.panel_bytes;
      } else {
        group.next = range.next_panels > 0 ? range.next_weight : nullptr;
      }
      multiply_group<T>(call, source, group, scratch);
      group.panel = end;
    }
  }
}

/// As few blocks of up to `most` columns as possible, of the same size to 16 columns.
inline int64_t even_blocks(int64_t num_cols, int64_t most) {
  const int64_t blocks = (num_cols + most - 1) / most;
  return (num_cols + 16 * blocks - 1) / (16 * blocks) * 16;
}

template <class S, class W>
void widen_floats(float* out, const LinearCall&, const std::byte* p, int64_t num_cols) {
  for (int64_t k = 0; k < num_cols; k += W::kCols, p += W::kBytes, out += W::kCols * kPanelRows) {
    for_each_constant<W::kCols>([&](auto j) __attribute__((always_inline)) {
      S::store(out + j.value * kPanelRows, W::template at<S, j.value>(p));
    });
  }
}

/// F32, F16 and BF16.
template <class S, class W>
void run_floats(const LinearCall& call, const LinearRange& range) {
  const int64_t rows = range.row_end - range.row_begin;
  using Direct = F32Tiles<S, W>;
  F32Source source{};
  source.width = rows == 1 ? S::kF32GemvPanels : S::kF32Panels;
  if (rows <= W::kDirectRows && call.num_cols % W::kCols == 0) {
    source.block_cols = even_blocks(call.num_cols, kBlockCols);
    source.block_bytes = static_cast<size_t>(source.block_cols / W::kCols) * W::kBytes;
    return run_f32<Direct>(call, range, source);
  }
  source.widen = widen_floats<S, W>;
  source.width = S::kF32Panels;
  source.block_cols = even_blocks(call.num_cols, kWidenCols);
  source.block_bytes = static_cast<size_t>(source.block_cols / W::kCols) * W::kBytes;
  run_f32<F32Tiles<S, WeightF32>>(call, range, source);
}

/// BF16 in the order of its dot: whole pairs, the last of which may end in a zero.
template <class S>
void run_bf16_pairs(const LinearCall& call, const LinearRange& range) {
  LinearCall padded = call;
  padded.num_cols = (call.num_cols + 1) / 2 * 2;
  run_floats<S, WeightBF16<true>>(padded, range);
}

}  // namespace
}  // namespace octavo::kernels
