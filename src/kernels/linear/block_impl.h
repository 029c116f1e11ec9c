#pragma once

#include "kernels/linear/block_formats.h"
#include "kernels/linear/linear_impl.h"

// Products with the formats of block_formats.h. Few rows: every tile unpacks in registers, where
// the class has enough of them (a version that stored scales to L1 and reloaded them halved the
// bandwidth of one row). Many rows: a group of panels is unpacked once per kChunkBlocks blocks into
// bytes and f32 scales on the stack, and the sums of up to kChunkRows rows pass through memory from
// chunk to chunk. Both ways run `add_block` on the same numbers in the same order: the same bits
// (promise P1).

namespace octavo::kernels {
namespace {

constexpr int64_t kChunkBlocks = 32;  // 20 KiB a panel: two of them and the rows stay in L2
constexpr int64_t kChunkRows = 128;

/// A block of 32 x 16 unpacked weights.
struct alignas(64) UnpackedBlock {
  float a[16], b[16];
  std::byte weights[8][64];
};

/// Blocks of 16 signed sums want two starting values a record, the others one.
template <class Q>
struct RecordOf {
  using Type = ActivationBlock;
};
template <>
struct RecordOf<Q6_K> {
  using Type = HalvesActivationBlock;
};

/// Rows and panels of a tile: with two sums of 16 columns each, fewer fit the registers.
template <class S, class Q>
struct BlockTile {
  static constexpr bool kHalves = Q::kScales == BlockScales::kHalves;
  static constexpr int kRows = kHalves && S::kInt8Rows > 4 ? 4 : S::kInt8Rows;
  static constexpr int kPanels = S::kInt8Panels;
};

/// sum += one block. `weights(Constant<l>, n)` gives the bytes of columns 4l.. of panel n.
template <class S, class Q, int MR, int NR, class Weights>
__attribute__((always_inline)) inline void add_block(typename S::F (&sum)[MR][NR],
                                                     const typename RecordOf<Q>::Type* x,
                                                     size_t x_stride, const typename S::F (&a)[NR],
                                                     const typename S::F (&b)[NR],
                                                     Weights weights) {
  using F = typename S::F;
  using I = typename S::I;
  constexpr bool kHalves = Q::kScales == BlockScales::kHalves;
  I acc[MR][NR];
  F first[MR][NR];  // of the halves: the first one, scaled
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) {
      if constexpr (Q::kScales == BlockScales::kMin) {
        acc[m][n] = S::izero();
      } else if constexpr (kHalves) {
        acc[m][n] = S::iset1(x[m * x_stride].c[0]);
      } else {
        acc[m][n] = S::iset1(x[m * x_stride].c);
      }
    }
  }
  for_each_constant<8>([&](auto l) __attribute__((always_inline)) {
    // Two conditions: only the outer one is known when the rest would be looked at.
    if constexpr (kHalves) {
      if constexpr (l.value == 4) {
#pragma GCC unroll 8
        for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
          for (int n = 0; n < NR; ++n) {
            first[m][n] = S::mul(S::to_f(acc[m][n]), a[n]);
            acc[m][n] = S::iset1(x[m * x_stride].c[1]);
          }
        }
      }
    }
    I w[NR];
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) w[n] = weights(l, n);
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m) {
      const I q = S::bcast4(x[m * x_stride].q + 4 * l.value);
#pragma GCC unroll 8
      for (int n = 0; n < NR; ++n) {
        acc[m][n] = kHasFullBytes<Q> ? S::dpbusd(acc[m][n], w[n], q)
                                     : S::dpbusd_nibbles(acc[m][n], w[n], q);
      }
    }
  });
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
    const F s = S::set1(x[m * x_stride].s);
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) {
      const F value = S::to_f(acc[m][n]);
      if constexpr (kHalves) {
        sum[m][n] = S::fma(S::fma(value, b[n], first[m][n]), s, sum[m][n]);
      } else {
        sum[m][n] = S::fma(value, S::mul(a[n], s), sum[m][n]);
      }
      if constexpr (Q::kScales == BlockScales::kMin) {
        sum[m][n] = S::fma(b[n], S::set1(x[m * x_stride].s_sum), sum[m][n]);
      }
    }
  }
}

/// body(at, headers, Constant<g>) for each of `num_blocks` blocks (whole super-blocks) of NR panels
/// from `p` on: block g of the super-block at `at`, or where the call gives the number of blocks,
/// block 0 seen from there.
template <class S, class Q, int NR, class Body>
__attribute__((always_inline)) inline void for_each_block(const std::byte* p,
                                                          const LinearCall& call,
                                                          int64_t num_blocks, Body body) {
  constexpr bool kByCall = Q::kBlocks == kBlocksOfCall;
  const int64_t step = kByCall ? call.group_blocks : Q::kBlocks;
  for (; num_blocks > 0; num_blocks -= step) {
    typename Q::template Header<S> header[NR];
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) header[n] = Q::template header<S>(p + n * call.panel_bytes);
    if constexpr (kByCall) {
      for (int64_t g = 0; g < step; ++g, p += Q::kBlock) body(p, header, Constant<0>{});
      p += Q::kHead;
    } else {
      for_each_constant<Q::kBlocks>([&](auto g)
                                        __attribute__((always_inline)) { body(p, header, g); });
      p += Q::kBytes;
    }
  }
}

/// One tile of few rows, straight from the packed weights. Fetches `lines` cache lines of the next
/// panels at each block. (Neither this nor chunk_tile is inlined: the gate on their loops looks
/// them up by name.)
template <class S, class Q, int MR, int NR>
__attribute__((noinline)) void block_tile(const LinearCall& call, int64_t row, int64_t panel,
                                          Prefetch prefetch) {
  using F = typename S::F;
  using Record = typename RecordOf<Q>::Type;
  F sum[MR][NR];
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) sum[m][n] = S::zero();
  }
  const std::byte* p = call.weight + static_cast<size_t>(panel) * call.panel_bytes;
  const auto* x =
      reinterpret_cast<const Record*>(call.x + static_cast<size_t>(row) * call.x_row_bytes);
  const size_t x_stride = call.x_row_bytes / sizeof(Record);
  for_each_block<S, Q, NR>(
      p, call, call.num_cols / kQuantBlock,
      [&](const std::byte* at, const typename Q::template Header<S>* header,
          auto g) __attribute__((always_inline)) {
        fetch_lines<S>(prefetch);
        F a[NR], b[NR];
#pragma GCC unroll 8
        for (int n = 0; n < NR; ++n) {
          b[n] = S::zero();
          Q::template scales<S, g.value>(at + n * call.panel_bytes, header[n], a[n], b[n]);
        }
        add_block<S, Q, MR, NR>(
            sum, x, x_stride, a, b, [&](auto l, int n) __attribute__((always_inline)) {
              return Q::template weights<S, g.value, l.value>(at + n * call.panel_bytes, header[n]);
            });
        ++x;
      });
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) store_row<S>(call, row + m, panel + n, sum[m][n]);
  }
}

/// `count` blocks of one panel, a whole number of super-blocks.
template <class S, class Q>
void unpack_blocks(UnpackedBlock* out, const std::byte* p, const LinearCall& call, int64_t count) {
  using F = typename S::F;
  for_each_block<S, Q, 1>(
      p, call, count,
      [&](const std::byte* at, const typename Q::template Header<S>* header,
          auto g) __attribute__((always_inline)) {
        F a, b = S::zero();
        Q::template scales<S, g.value>(at, *header, a, b);
        S::store(out->a, a);
        S::store(out->b, b);
        for_each_constant<8>([&](auto l) __attribute__((always_inline)) {
          S::istore(out->weights[l.value], Q::template weights<S, g.value, l.value>(at, *header));
        });
        ++out;
      });
}

/// Where a group of panels stands: unpacked blocks of a chunk and running sums.
template <int NR>
struct Chunk {
  UnpackedBlock blocks[NR][kChunkBlocks];
  float sums[kChunkRows][NR][16];
};

/// Adds `count` unpacked blocks to the sums of MR rows.
template <class S, class Q, int MR, int NR>
__attribute__((noinline)) void chunk_tile(float (*sums)[NR][16],
                                          const UnpackedBlock (*blocks)[kChunkBlocks],
                                          const std::byte* rows, size_t x_row_bytes, int64_t count,
                                          Prefetch* prefetch) {
  using F = typename S::F;
  using Record = typename RecordOf<Q>::Type;
  F sum[MR][NR];
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) sum[m][n] = S::load(sums[m][n]);
  }
  const auto* x = reinterpret_cast<const Record*>(rows);
  const size_t x_stride = x_row_bytes / sizeof(Record);
  for (int64_t i = 0; i < count; ++i, ++x) {
    F a[NR], b[NR];
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) {
      fetch_lines<S>(prefetch[n]);
      a[n] = S::load(blocks[n][i].a);
      b[n] = S::load(blocks[n][i].b);
    }
    add_block<S, Q, MR, NR>(
        sum, x, x_stride, a, b, [&](auto l, int n) __attribute__((always_inline)) {
          return S::iload(blocks[n][i].weights[l.value]);
        });
  }
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) S::store(sums[m][n], sum[m][n]);
  }
}

template <class S, class Q, int MR, int NR>
void chunk_tile_of(int height, float (*sums)[NR][16], const UnpackedBlock (*blocks)[kChunkBlocks],
                   const std::byte* rows, size_t x_row_bytes, int64_t count, Prefetch* prefetch) {
  if constexpr (MR > 1) {
    if (height < MR) {
      return chunk_tile_of<S, Q, MR - 1, NR>(height, sums, blocks, rows, x_row_bytes, count,
                                             prefetch);
    }
  }
  chunk_tile<S, Q, MR, NR>(sums, blocks, rows, x_row_bytes, count, prefetch);
}

/// All products of rows [row, row + num_rows) with NR panels, num_rows up to kChunkRows.
template <class S, class Q, int NR>
void run_chunks(const LinearCall& call, int64_t row, int64_t num_rows, int64_t panel,
                int64_t panel_end) {
  constexpr int kRows = BlockTile<S, Q>::kRows;
  constexpr int64_t kMaxPrefetchTiles = 16;  // beyond, weights cost less than fetching them
  Chunk<NR> chunk;
  for (int64_t m = 0; m < num_rows; ++m) {
    for (int n = 0; n < NR; ++n) S::store(chunk.sums[m][n], S::zero());
  }
  const std::byte* const weight = call.weight + static_cast<size_t>(panel) * call.panel_bytes;
  const std::byte* const rows = call.x + static_cast<size_t>(row) * call.x_row_bytes;
  const int64_t num_blocks = call.num_cols / kQuantBlock;
  const int64_t num_tiles = (num_rows + kRows - 1) / kRows;
  const size_t block_bytes = call.panel_bytes / static_cast<size_t>(num_blocks);
  for (int64_t begin = 0; begin < num_blocks; begin += kChunkBlocks) {
    const int64_t left = num_blocks - begin;
    const int64_t count = left < kChunkBlocks ? left : kChunkBlocks;
    // The next chunk of these panels, or the first of the next ones.
    const std::byte* const ahead = left > count
                                       ? weight + static_cast<size_t>(begin + count) * block_bytes
                                       : weight + NR * call.panel_bytes;
    const bool fetches =
        num_tiles <= kMaxPrefetchTiles && (left > count || panel + 2 * NR <= panel_end);
    const int64_t lines = static_cast<int64_t>(block_bytes) * kChunkBlocks / 64;
    Prefetch prefetch[NR];
    for (int n = 0; n < NR; ++n) {
      unpack_blocks<S, Q>(chunk.blocks[n],
                          weight + n * call.panel_bytes + static_cast<size_t>(begin) * block_bytes,
                          call, count);
      const int64_t steps = num_tiles * count;
      prefetch[n].at = ahead + n * call.panel_bytes;
      prefetch[n].lines = fetches ? static_cast<int>((lines + steps - 1) / steps) : 0;
    }
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      const int64_t first = num_rows * tile / num_tiles;
      const int64_t height = num_rows * (tile + 1) / num_tiles - first;
      chunk_tile_of<S, Q, kRows, NR>(
          static_cast<int>(height), chunk.sums + first, chunk.blocks,
          rows + static_cast<size_t>(first) * call.x_row_bytes +
              static_cast<size_t>(begin) * sizeof(typename RecordOf<Q>::Type),
          call.x_row_bytes, count, prefetch);
    }
  }
  for (int64_t m = 0; m < num_rows; ++m) {
    for (int n = 0; n < NR; ++n) {
      store_row<S>(call, row + m, panel + n, S::load(chunk.sums[m][n]));
    }
  }
}

/// The tile of `height` rows by one panel.
template <class S, class Q, int MR>
void block_tile_of(int height, const LinearCall& call, int64_t row, int64_t panel,
                   Prefetch prefetch) {
  if constexpr (MR > 1) {
    if (height < MR) return block_tile_of<S, Q, MR - 1>(height, call, row, panel, prefetch);
  }
  block_tile<S, Q, MR, 1>(call, row, panel, prefetch);
}

/// All products of the few rows of one tile.
template <class S, class Q>
void run_block_tiles(const LinearCall& call, const LinearRange& range) {
  const int64_t num_blocks = call.num_cols / kQuantBlock;
  const int64_t lines = static_cast<int64_t>(call.panel_bytes) / 64;
  const int per_block = static_cast<int>((lines + num_blocks - 1) / num_blocks);
  for (int64_t panel = range.panel_begin; panel < range.panel_end; ++panel) {
    const bool is_last = panel + 1 == range.panel_end;
    const std::byte* next = call.weight + static_cast<size_t>(panel + 1) * call.panel_bytes;
    block_tile_of<S, Q, BlockTile<S, Q>::kRows>(static_cast<int>(range.row_end - range.row_begin),
                                                call, range.row_begin, panel,
                                                {next, is_last ? 0 : per_block});
  }
}

template <class S, class Q>
void run_blocks(const LinearCall& call, const LinearRange& range) {
  constexpr int kPanels = BlockTile<S, Q>::kPanels;
  if constexpr (S::kTilesUnpack) {
    if (range.row_end - range.row_begin <= BlockTile<S, Q>::kRows) {
      return run_block_tiles<S, Q>(call, range);
    }
  }
  for (int64_t row = range.row_begin; row < range.row_end; row += kChunkRows) {
    const int64_t left = range.row_end - row;
    const int64_t rows = left < kChunkRows ? left : kChunkRows;
    int64_t panel = range.panel_begin;
    for (; panel + kPanels <= range.panel_end; panel += kPanels) {
      run_chunks<S, Q, kPanels>(call, row, rows, panel, range.panel_end);
    }
    for (; panel < range.panel_end; ++panel) {
      run_chunks<S, Q, 1>(call, row, rows, panel, range.panel_end);
    }
  }
}

/// What quantise_row asks of a format.
template <class Q>
struct Starts {
  static constexpr bool kHasMin = Q::kScales == BlockScales::kMin;
  static constexpr int kZeroPoint = Q::kZeroPoint;
};

/// quantise_row for the records with two starting values.
template <class S>
void quantise_row_halves(std::byte* out, const float* x, int64_t num_cols) {
  auto* block = reinterpret_cast<HalvesActivationBlock*>(out);
  for (int64_t b = 0; b < num_cols / kQuantBlock; ++b, ++block, x += kQuantBlock) {
    ActivationBlock whole;
    quantise_row<S, Q8_0>(reinterpret_cast<std::byte*>(&whole), x, kQuantBlock);
    for (int half = 0; half < 2; ++half) {
      int32_t sum = 0;
      for (int i = 0; i < 16; ++i) sum += whole.q[16 * half + i];
      block->c[half] = -Q6_K::kZeroPoint * sum;
    }
    __builtin_memcpy(block->q, whole.q, sizeof whole.q);
    block->s = whole.s;
  }
}

}  // namespace
}  // namespace octavo::kernels
