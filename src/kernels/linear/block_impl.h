#pragma once

#include <type_traits>

#include "kernels/linear/block_formats.h"
#include "kernels/linear/linear_impl.h"

// Products with the formats of block_formats.h. Few rows: every tile unpacks in registers. Many
// rows: a group of panels is unpacked once, into scratch of the thread, as bytes and f32 scales,
// and all tiles read that. Both ways run `add_block` on the same numbers in the same order: the
// same bits (promise P1).

namespace octavo::kernels {
namespace {

/// A block of 32 x 16 unpacked weights.
struct alignas(64) UnpackedBlock {
  float a[16], b[16];
  std::byte weights[8][64];
};
static_assert(sizeof(UnpackedBlock) == kUnpackedBlockBytes);

/// One record of a row of x: two sums of 16 columns want two starting values.
template <bool kHalves>
struct RecordOf {
  using Type = ActivationBlock;
};
template <>
struct RecordOf<true> {
  using Type = HalvesActivationBlock;
};

/// What a tile must know of a format: the tiles of unpacked blocks are the same for all of a kind.
template <bool kMin, bool kHalf, bool kFull>
struct BlockKind {
  static constexpr bool kHasMin = kMin;   // BlockScales::kMin
  static constexpr bool kHalves = kHalf;  // BlockScales::kHalves
  static constexpr bool kFullBytes = kFull;
  using Record = typename RecordOf<kHalves>::Type;
};
/// With one instruction for all bytes, full ones are no kind of their own.
template <class S, class Q>
using KindOf = BlockKind<Q::kScales == BlockScales::kMin, Q::kScales == BlockScales::kHalves,
                         Q::kFullBytes && !S::kOneDot>;

/// The sums of a tile, in registers.
template <class S, int MR, int NR>
struct RegisterSums {
  using F = typename S::F;
  F value[MR][NR];
  void begin_block() {}
  __attribute__((always_inline)) F get(int m, int n) const { return value[m][n]; }
  __attribute__((always_inline)) void set(int m, int n, F sum) { value[m][n] = sum; }
};
/// The same in memory: a tile so tall that the registers hold no more than the integer sums of a
/// block. It unpacks its weights for more rows.
template <class S, int MR, int NR>
struct MemorySums {
  using F = typename S::F;
  alignas(64) float value[MR * NR * kPanelRows];
  /// Otherwise the compiler carries sums from block to block in registers that it does not have.
  __attribute__((always_inline)) void begin_block() { asm volatile("" : "+m"(value)); }
  __attribute__((always_inline)) F get(int m, int n) const {
    return S::load(value + (m * NR + n) * kPanelRows);
  }
  __attribute__((always_inline)) void set(int m, int n, F sum) {
    S::store(value + (m * NR + n) * kPanelRows, sum);
  }
};
/// Sums that leave registers enough for as many integer ones.
template <class S, int MR, int NR>
using TileSums = std::conditional_t<(MR * NR > S::kInt8Rows * S::kInt8Panels),
                                    MemorySums<S, MR, NR>, RegisterSums<S, MR, NR>>;

/// sums += one block. `weights(l, n)` gives the bytes of columns 4l.. of panel n.
template <class S, class Kind, int MR, int NR, class Sums, class Weights>
__attribute__((always_inline)) inline void add_block(Sums& sums, const typename Kind::Record* x,
                                                     size_t x_stride, const typename S::F (&a)[NR],
                                                     const typename S::F (&b)[NR],
                                                     Weights weights) {
  using F = typename S::F;
  using I = typename S::I;
  constexpr bool kHalves = Kind::kHalves;
  I acc[MR][NR];
  F first[MR][NR];  // of the halves: the first one, scaled
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) {
      if constexpr (Kind::kHasMin) {
        acc[m][n] = S::izero();
      } else if constexpr (kHalves) {
        acc[m][n] = S::iset1(x[m * x_stride].c[0]);
      } else {
        acc[m][n] = S::iset1(x[m * x_stride].c);
      }
    }
  }
#pragma GCC unroll 8
  for (int l = 0; l < 8; ++l) {
    if constexpr (kHalves) {
      if (l == 4) {
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
      const I q = S::bcast4(x[m * x_stride].q + 4 * l);
#pragma GCC unroll 8
      for (int n = 0; n < NR; ++n) {
        acc[m][n] = Kind::kFullBytes ? S::dpbusd(acc[m][n], w[n], q)
                                     : S::dpbusd_nibbles(acc[m][n], w[n], q);
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
    const F s = S::set1(x[m * x_stride].s);
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) {
      const F value = S::to_f(acc[m][n]);
      F sum = sums.get(m, n);
      if constexpr (kHalves) {
        sum = S::fma(S::fma(value, b[n], first[m][n]), s, sum);
      } else {
        sum = S::fma(value, S::mul(a[n], s), sum);
      }
      if constexpr (Kind::kHasMin) sum = S::fma(b[n], S::set1(x[m * x_stride].s_sum), sum);
      sums.set(m, n, sum);
    }
  }
}

/// body(at, headers, g) for each of `num_blocks` blocks (whole super-blocks) of NR panels
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
      for (int64_t g = 0; g < step; ++g, p += Q::kBlock) body(p, header, 0);
      p += Q::kHead;
    } else {
      // Not a loop to be unrolled: six rows of Q5_K would spill more and take 7 % longer.
      for_each_constant<Q::kBlocks>([&](auto g) __attribute__((always_inline)) {
        body(p, header, g.value);
      });
      p += Q::kBytes;
    }
  }
}

/// How far ahead of itself one row's tile of blocks fetches, all its panels together: each is a
/// stream from memory of its own (fetch_ahead). Sapphire Rapids, two threads, 4,096 columns, 216
/// MiB, Q4_0 and Q4_K: one panel, fetching the next one, 26 and 27 GB/s, its own lines 1.5 or 6 KiB
/// ahead 28 and 29; two panels 1.5 KiB ahead each 31 and 33, 3 KiB 33 and 34; four, 1.5 KiB, 34 and
/// 34. BF16: 35.
constexpr int64_t kBlocksAheadBytes = 6144;

/// Fetches what lies that far behind block `g` of NR panels, the first of which has its blocks at
/// `at`; behind that one's `end`, of the panels from `next` on, if there are any (what lies there
/// otherwise is not read).
template <class S, class Q, int NR>
__attribute__((always_inline)) inline void fetch_block_ahead(const LinearCall& call, int g,
                                                             const std::byte* at,
                                                             const std::byte* end,
                                                             const std::byte* next) {
  constexpr size_t kShare = [] {
    if constexpr (Q::kBlocks == kBlocksOfCall) {
      return Q::kHead + Q::kBlock;  // the head again and again: nothing beside the rest
    } else {
      return Q::kBytes / Q::kBlocks;
    }
  }();
  at += kBlocksAheadBytes / NR + static_cast<size_t>(g) * kShare;
  // Keeps each block's where it is: g++ gathers those of a super-block before its first block.
  asm volatile("" : "+r"(at));
  if (at >= end && next != nullptr) at += next - end;
#pragma GCC unroll 8
  for (int n = 0; n < NR; ++n) {
#pragma GCC unroll 16
    for (size_t i = 0; i < kShare; i += 64) S::prefetch(at + n * call.panel_bytes + i);
  }
}

/// One tile straight from the packed weights. (Neither this nor unpacked_tile is inlined: the gate
/// on their loops looks them up by name.)
template <class S, class Q, int MR, int NR>
__attribute__((noinline)) void block_tile(const LinearCall& call, const std::byte* weight,
                                          int64_t row, int64_t panel, Prefetch prefetch) {
  using F = typename S::F;
  using Record = typename KindOf<S, Q>::Record;
  TileSums<S, MR, NR> sums;
  start_sums<S, MR, NR>(call, row, sums);
  const auto* x =
      reinterpret_cast<const Record*>(call.x + static_cast<size_t>(row) * call.x_row_bytes);
  const size_t x_stride = call.x_row_bytes / sizeof(Record);
  for_each_block<S, Q, NR>(
      weight, call, call.num_cols / kQuantBlock,
      [&](const std::byte* at, const typename Q::template Header<S>* header, int g)
          __attribute__((always_inline)) {
            if constexpr (MR == 1) {
              fetch_block_ahead<S, Q, NR>(call, g, at, weight + call.panel_bytes, prefetch.at);
            } else {
              fetch_lines<S>(prefetch);
            }
            sums.begin_block();
            F a[NR], b[NR];
#pragma GCC unroll 8
            for (int n = 0; n < NR; ++n) {
              b[n] = S::zero();
              Q::template scales<S>(at + n * call.panel_bytes, header[n], g, a[n], b[n]);
            }
            add_block<S, KindOf<S, Q>, MR, NR>(
                sums, x, x_stride, a, b, [&](int l, int n) __attribute__((always_inline)) {
                  return Q::template weights<S>(at + n * call.panel_bytes, header[n], g, l);
                });
            ++x;
          });
  F sum[MR][NR];
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) sum[m][n] = sums.get(m, n);
  }
  store_tile<S, MR, NR>(call, row, panel, sum);
}

/// `count` blocks of one panel, a whole number of super-blocks.
template <class S, class Q>
void unpack_blocks(UnpackedBlock* out, const std::byte* p, const LinearCall& call, int64_t count) {
  using F = typename S::F;
  for_each_block<S, Q, 1>(
      p, call, count,
      [&](const std::byte* at, const typename Q::template Header<S>* header, int g)
          __attribute__((always_inline)) {
            F a, b = S::zero();
            Q::template scales<S>(at, *header, g, a, b);
            S::store(out->a, a);
            S::store(out->b, b);
#pragma GCC unroll 8
            for (int l = 0; l < 8; ++l) {
              S::istore(out->weights[l], Q::template weights<S>(at, *header, g, l));
            }
            ++out;
          });
}

/// Fetches what a tile will be added to: after other panels' tiles it is no longer in L1.
template <class S, int MR, int NR>
__attribute__((always_inline)) inline void fetch_sums(const LinearCall& call, int64_t row,
                                                      int64_t panel) {
  const float* out =
      call.out + (row - call.out_row) * call.out_stride + panel * kPanelRows - call.out_column;
  for (int m = 0; m < MR; ++m, out += call.out_stride) {
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) S::prefetch(out + n * kPanelRows);
  }
}

/// One tile of unpacked panels, call.panel_bytes apart.
template <class S, class Kind, int MR, int NR>
__attribute__((noinline)) void unpacked_tile(const LinearCall& call, const std::byte* weight,
                                             int64_t row, int64_t panel, Prefetch prefetch) {
  using F = typename S::F;
  using Record = typename Kind::Record;
  RegisterSums<S, MR, NR> sums;
  start_sums<S, MR, NR>(call, row, sums);
  const auto* x =
      reinterpret_cast<const Record*>(call.x + static_cast<size_t>(row) * call.x_row_bytes);
  const size_t x_stride = call.x_row_bytes / sizeof(Record);
  const int64_t num_blocks = call.num_cols / kQuantBlock;
  if (call.add) fetch_sums<S, MR, NR>(call, row, panel);
  for (int64_t i = 0; i < num_blocks; ++i, weight += sizeof(UnpackedBlock), ++x) {
    fetch_lines<S>(prefetch);
    const UnpackedBlock* block[NR];
    F a[NR], b[NR];
#pragma GCC unroll 8
    for (int n = 0; n < NR; ++n) {
      block[n] = reinterpret_cast<const UnpackedBlock*>(weight + n * call.panel_bytes);
      a[n] = S::load(block[n]->a);
      b[n] = Kind::kHasMin || Kind::kHalves ? S::load(block[n]->b) : S::zero();
    }
    add_block<S, Kind, MR, NR>(
        sums, x, x_stride, a, b, [&](int l, int n) __attribute__((always_inline)) {
          return S::iload(block[n]->weights[l]);
        });
  }
  store_tile<S, MR, NR>(call, row, panel, sums.value);
}

/// One column of a block: of each output the value of byte `column % 4` of `words`.
template <class S, class Q>
__attribute__((always_inline)) inline typename S::F widen_column(typename S::I words, int column,
                                                                 typename S::F a, typename S::F b) {
  using I = typename S::I;
  const I weights = S::iand(S::srl(words, 8 * (column % 4)), S::iset1(255));
  if constexpr (Q::kScales == BlockScales::kMin) {
    return S::fma(S::to_f(weights), a, b);
  } else {
    const typename S::F value = S::to_f(S::isub(weights, S::iset1(Q::kZeroPoint)));
    return S::mul(value, Q::kScales == BlockScales::kHalves && column >= 16 ? b : a);
  }
}

/// The weights of the columns that were taken out, of one panel; `weights` is the first's.
template <class S, class Q>
__attribute__((noinline)) void widen_taken_panel(const LinearCall& call, const std::byte* panel,
                                                 float* weights) {
  constexpr bool kByCall = Q::kBlocks == kBlocksOfCall;
  for (int i = 1; i < call.taken.count; ++i) {
    const int32_t block = call.taken.columns[i] / kQuantBlock;
    const int column = call.taken.columns[i] % kQuantBlock;
    const std::byte* at = panel;
    int g = 0;
    typename Q::template Header<S> header;
    if constexpr (kByCall) {
      const auto size = static_cast<int32_t>(call.group_blocks);
      at += static_cast<size_t>(block / size) * (Q::kHead + static_cast<size_t>(size) * Q::kBlock);
      header = Q::template header<S>(at);
      at += static_cast<size_t>(block % size) * Q::kBlock;
    } else {
      at += static_cast<size_t>(block / Q::kBlocks) * Q::kBytes;
      header = Q::template header<S>(at);
      g = block % Q::kBlocks;
    }
    typename S::F a = S::zero(), b = S::zero();
    Q::template scales<S>(at, header, g, a, b);
    const typename S::I words = Q::template weights<S>(at, header, g, column / 4);
    S::store(weights + int64_t{i} * kTakenStride, widen_column<S, Q>(words, column, a, b));
  }
}

/// The same of a panel that was unpacked.
template <class S, class Q>
void widen_taken_unpacked(const LinearCall& call, const UnpackedBlock* panel, float* weights) {
  for (int i = 1; i < call.taken.count; ++i) {
    const UnpackedBlock& block = panel[call.taken.columns[i] / kQuantBlock];
    const int column = call.taken.columns[i] % kQuantBlock;
    S::store(weights + int64_t{i} * kTakenStride,
             widen_column<S, Q>(S::iload(block.weights[column / 4]), column, S::load(block.a),
                                S::load(block.b)));
  }
}

/// With two sums of 16 columns each, fewer rows fit the registers.
template <class S, class Kind>
inline constexpr int kBlockRows = Kind::kHalves&& S::kInt8Rows > 5 ? 5 : S::kInt8Rows;

template <class S, class Q>
struct BlockTiles {
  // What unpacks in many instructions needs the registers of a second panel.
  static constexpr int kPanels = Q::kUnpacking == Unpacking::kBeyondATile ? 1 : S::kInt8Panels;
  // Taller, with sums in memory, only pays where there is something to unpack.
  static constexpr int kRows =
      Q::kUnpacking == Unpacking::kManyRows ? S::kInt8TallRows : kBlockRows<S, KindOf<S, Q>>;
  static constexpr bool kPairsOnly = kPanels == 2;
  static constexpr bool kWidensTaken = true;
  // Super-blocks make long tiles: where bytes take several instructions to multiply, which keeps
  // memory waiting anyway, a further one is not worth its compile time.
  static constexpr int kGemvPanels =
      Q::kUnpacking == Unpacking::kBeyondATile && !S::kOneDot ? 1 : S::kInt8GemvPanels;
  static constexpr int kLeastRows = 1;
  static constexpr int64_t kStepCols = kQuantBlock;
  template <int MR, int NR>
  static constexpr TileFn kTile = block_tile<S, Q, MR, NR>;

  static void widen_taken(const LinearCall& call, int64_t panel, int width) {
    for (int i = 0; i < width; ++i) {
      widen_taken_panel<S, Q>(call, call.weight + static_cast<size_t>(panel + i) * call.panel_bytes,
                              call.taken_weights + i * kPanelRows);
    }
  }
};
template <class S, class Kind>
struct UnpackedTiles {
  static constexpr int kRows = kBlockRows<S, Kind>, kPanels = S::kInt8Panels;
  // Shared out evenly, more rows than a tile has leave at least half of one to each.
  static constexpr int kLeastRows = S::kTilesUnpack ? (kRows + 1) / 2 : 1;
  static constexpr int kGemvPanels = 1;
  static constexpr bool kPairsOnly = false;
  static constexpr int64_t kStepCols = kQuantBlock;
  template <int MR, int NR>
  static constexpr TileFn kTile = unpacked_tile<S, Kind, MR, NR>;
};

/// All products with one group of panels after another, each unpacked into the thread's scratch.
template <class S, class Q>
void run_unpacking(const LinearCall& call, const LinearRange& range) {
  using T = UnpackedTiles<S, KindOf<S, Q>>;
  static_assert(T::kPanels <= kUnpackPanels);
  const int64_t num_rows = range.row_end - range.row_begin;
  const int64_t num_tiles = (num_rows + T::kRows - 1) / T::kRows;
  const int64_t num_blocks = call.num_cols / kQuantBlock;
  LinearCall unpacked = call;
  unpacked.panel_bytes = static_cast<size_t>(num_blocks) * sizeof(UnpackedBlock);
  std::byte* const scratch =
      call.scratch + static_cast<size_t>(range.thread_index) * call.scratch_bytes;
  for (int64_t panel = range.panel_begin; panel < range.panel_end;) {
    const int64_t left = range.panel_end - panel;
    const int width = static_cast<int>(left < T::kPanels ? left : T::kPanels);
    for (int i = 0; i < width; ++i) {
      unpack_blocks<S, Q>(
          reinterpret_cast<UnpackedBlock*>(scratch + static_cast<size_t>(i) * unpacked.panel_bytes),
          call.weight + static_cast<size_t>(panel + i) * call.panel_bytes, call, num_blocks);
      if (call.taken.rows != nullptr) {
        widen_taken_unpacked<S, Q>(call,
                                   reinterpret_cast<const UnpackedBlock*>(
                                       scratch + static_cast<size_t>(i) * unpacked.panel_bytes),
                                   call.taken_weights + i * kPanelRows);
      }
    }
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      const int64_t begin = num_rows * tile / num_tiles;
      const int64_t end = num_rows * (tile + 1) / num_tiles;
      tile_of<T, T::kRows>(static_cast<int>(end - begin), width)(
          unpacked, scratch, range.row_begin + begin, panel,
          share_of_prefetch<T>(call, range, panel + width, T::kPanels, tile, num_tiles));
    }
    panel += width;
  }
}

template <class S, class Q>
void run_blocks(const LinearCall& call, const LinearRange& range) {
  if constexpr (Q::kUnpacking == Unpacking::kToAlign && !S::kOneDot) {
    run_tiles<BlockTiles<S, Q>>(call, range);
  } else if constexpr (Q::kUnpacking == Unpacking::kBeyondATile && !S::kTilesUnpack) {
    run_unpacking<S, Q>(call, range);
  } else {
    constexpr int64_t kFrom =
        Q::kUnpacking == Unpacking::kBeyondATile ? BlockTiles<S, Q>::kRows + 1 : kUnpackRows;
    if (range.row_end - range.row_begin < kFrom) {
      run_tiles<BlockTiles<S, Q>>(call, range);
    } else {
      run_unpacking<S, Q>(call, range);
    }
  }
}

/// run_blocks of rows of which something may have been taken out.
template <class S, class Q>
void run_with_taken(const LinearCall& call, const LinearRange& range) {
  if (call.taken.rows == nullptr) return run_blocks<S, Q>(call, range);
  LinearCall mine = call;
  mine.taken_weights +=
      static_cast<size_t>(range.thread_index) * (call.scratch_bytes / sizeof(float));
  for (int i = 0; i < kTakenStride; ++i) mine.taken_weights[i] = 0.0f;
  run_blocks<S, Q>(mine, range);
}

}  // namespace
}  // namespace octavo::kernels
