#pragma once

#include "kernels/linear/linear_params.h"

// Activations as int8 records, a template over a Simd class `S`. Many blocks at once: the maxima
// and sums of four end in neighbouring lanes, so that a reduction costs a block 3 instructions and
// not 9, and sixteen share the two divisions.

namespace octavo::kernels {
namespace {

/// Blocks whose scales are computed together.
inline constexpr int kQuantBatch = 32;
/// Blocks that one reduction takes.
inline constexpr int kQuantGroup = 4;

/// What becomes of a block's sum of q.
///   kStart    c = -2^kZeroBits * sum: what the integer sum starts from
///   kHalves   the same for each half of the block
///   kScaled   s_sum = s * sum
enum class QuantSum { kStart, kHalves, kScaled };

template <QuantSum kSum>
struct QuantRecordOf {
  using Type = ActivationBlock;
};
template <>
struct QuantRecordOf<QuantSum::kHalves> {
  using Type = HalvesActivationBlock;
};

/// Blocks at equal distances.
struct BlockRun {
  const float* x;
  int64_t x_step;  // floats
  std::byte* out;
  int64_t out_step;  // bytes
  int count;         // from kQuantGroup on

  /// Where group number i / kQuantGroup begins: the last one overlaps the one before if need be.
  int group_at(int i) const { return i + kQuantGroup <= count ? i : count - kQuantGroup; }
};

/// Of each block of a batch. What lies beyond the run's blocks is divided, too, so it must be
/// something: a subnormal costs a hundred cycles.
struct QuantScales {
  alignas(64) float scale[kQuantBatch] = {};  // the largest magnitude first
  alignas(64) float inverse[kQuantBatch];
  alignas(64) int32_t sum[2][kQuantBatch] = {};  // of q, or of each half's
};

/// The largest magnitudes of a group's blocks.
template <class S>
__attribute__((always_inline)) inline void measure_group(QuantScales& to, const BlockRun& run,
                                                         int at) {
  using I = typename S::I;
  // As integers the magnitudes order like the floats, with NaN above infinity.
  const I magnitude = S::iset1(0x7fffffff);
  const float* x = run.x + at * run.x_step;
  I most[kQuantGroup];
#pragma GCC unroll 4
  for (int j = 0; j < kQuantGroup; ++j, x += run.x_step) {
    most[j] = S::imax(S::iand(S::as_i(S::load(x)), magnitude),
                      S::iand(S::as_i(S::load(x + 16)), magnitude));
  }
  S::store_max4(to.scale + at, most[0], most[1], most[2], most[3]);
}

/// Scales and their inverses from the largest magnitudes of 16 blocks. Those of an empty block are
/// 0; of one that holds an infinity or a NaN, NaN and 0.
template <class S>
__attribute__((always_inline)) inline void scale_blocks(QuantScales& to, int at, int count) {
  using F = typename S::F;
  const F largest = S::load(to.scale + at);
  // Above 1e-35: 127 / largest does not overflow.
  const uint32_t usual =
      S::mask_ge(largest, S::set1(1.00000009e-35f)) & S::mask_ge(S::set1(3.40282347e+38f), largest);
  S::store(to.scale + at, S::div(largest, S::set1(127.0f)));
  S::store(to.inverse + at, S::div(S::set1(127.0f), largest));
  const uint32_t lanes = count - at < 16 ? (1u << (count - at)) - 1 : 0xffffu;
  for (uint32_t others = lanes & ~usual; others != 0; others &= others - 1) {
    const int i = __builtin_ctz(others);
    float values[16];
    S::store(values, largest);
    to.inverse[at + i] = 0.0f;
    to.scale[at + i] = values[i] <= 1e-35f ? 0.0f : __builtin_nanf("");
  }
}

template <class S, QuantSum kSum>
__attribute__((always_inline)) inline void round_group(QuantScales& to, const BlockRun& run,
                                                       int at) {
  using I = typename S::I;
  const float* x = run.x + at * run.x_step;
  std::byte* const out = run.out + at * run.out_step;
  I q0[kQuantGroup], q1[kQuantGroup];
#pragma GCC unroll 4
  for (int j = 0; j < kQuantGroup; ++j, x += run.x_step) {
    const typename S::F inverse = S::set1(to.inverse[at + j]);
    q0[j] = S::round_i(S::mul(S::load(x), inverse));
    q1[j] = S::round_i(S::mul(S::load(x + 16), inverse));
  }
#pragma GCC unroll 2
  for (int j = 0; j < kQuantGroup; j += 2) {
    S::store_bytes2(out + j * run.out_step, out + (j + 1) * run.out_step, q0[j], q1[j], q0[j + 1],
                    q1[j + 1]);
  }
  if constexpr (kSum == QuantSum::kHalves) {
    S::store_add4(to.sum[0] + at, q0[0], q0[1], q0[2], q0[3]);
    S::store_add4(to.sum[1] + at, q1[0], q1[1], q1[2], q1[3]);
  } else {
    S::store_add4(to.sum[0] + at, S::iadd(q0[0], q1[0]), S::iadd(q0[1], q1[1]),
                  S::iadd(q0[2], q1[2]), S::iadd(q0[3], q1[3]));
  }
}

/// Scales and sums into the records.
template <class S, QuantSum kSum, int kZeroBits>
__attribute__((always_inline)) inline void finish_records(QuantScales& from, const BlockRun& run) {
  using Record = typename QuantRecordOf<kSum>::Type;
  constexpr int kNumSums = kSum == QuantSum::kHalves ? 2 : 1;
  for (int i = 0; i < run.count; i += 16) {
#pragma GCC unroll 2
    for (int half = 0; half < kNumSums; ++half) {
      const typename S::I sum = S::iload(from.sum[half] + i);
      if constexpr (kSum == QuantSum::kScaled) {
        S::istore(from.sum[half] + i, S::as_i(S::mul(S::load(from.scale + i), S::to_f(sum))));
      } else {
        S::istore(from.sum[half] + i, S::template sll<kZeroBits>(S::isub(S::izero(), sum)));
      }
    }
  }
  for (int i = 0; i < run.count; i += kQuantGroup) {
    const int at = run.group_at(i);
    std::byte* out = run.out + at * run.out_step;
#pragma GCC unroll 4
    for (int j = 0; j < kQuantGroup; ++j, out += run.out_step) {
      __builtin_memcpy(out + offsetof(Record, s), &from.scale[at + j], 4);
#pragma GCC unroll 2
      for (int half = 0; half < kNumSums; ++half) {
        __builtin_memcpy(out + offsetof(Record, c) + 4 * half, &from.sum[half][at + j], 4);
      }
    }
  }
}

template <class S, QuantSum kSum, int kZeroBits>
void quantise_run(BlockRun run) {
  if (run.count < kQuantGroup) {  // one by one, each in all places of a group
    for (int i = 0; i < run.count; ++i) {
      quantise_run<S, kSum, kZeroBits>(
          {run.x + i * run.x_step, 0, run.out + i * run.out_step, 0, kQuantGroup});
    }
    return;
  }
  QuantScales scales;
  for (int i = 0; i < run.count; i += kQuantGroup) measure_group<S>(scales, run, run.group_at(i));
  for (int i = 0; i < run.count; i += 16) scale_blocks<S>(scales, i, run.count);
  for (int i = 0; i < run.count; i += kQuantGroup) {
    round_group<S, kSum>(scales, run, run.group_at(i));
  }
  finish_records<S, kSum, kZeroBits>(scales, run);
}

/// Quantises rows to int8 in blocks of 32, scale = max|x| / 127 (the rule of GGUF's Q8_0, with the
/// scale kept in f32). A block that holds an infinity or a NaN gets the scale NaN: so do its sums.
template <class S, QuantSum kSum, int kZeroBits>
void quantise_rows(const RowsToPrepare& rows) {
  constexpr auto kRecord = static_cast<int64_t>(sizeof(typename QuantRecordOf<kSum>::Type));
  const auto row_bytes = static_cast<int64_t>(rows.out_row_bytes);
  const int64_t row_blocks = rows.num_cols / kQuantBlock;
  // Rows without a gap are one run; else runs go along rows or down columns, where they are longer.
  const bool is_one = rows.x_stride == rows.num_cols && row_bytes == row_blocks * kRecord;
  const bool is_down = !is_one && rows.num_rows > row_blocks;
  const int64_t num_runs = is_one ? 1 : is_down ? row_blocks : rows.num_rows;
  const int64_t length = rows.num_rows * row_blocks / num_runs;
  const int64_t x_step = is_down ? rows.x_stride : kQuantBlock;
  const int64_t out_step = is_down ? row_bytes : kRecord;
  for (int64_t run = 0; run < num_runs; ++run) {
    const float* x = rows.x + run * (is_down ? kQuantBlock : rows.x_stride);
    std::byte* out = rows.out + run * (is_down ? kRecord : row_bytes);
    for (int64_t left = length; left > 0;) {
      // Less than a group must not be left over.
      const int64_t most = left < kQuantBatch + kQuantGroup ? kQuantBatch / 2 : kQuantBatch;
      const int64_t count = left <= kQuantBatch ? left : most;
      quantise_run<S, kSum, kZeroBits>({x, x_step, out, out_step, static_cast<int>(count)});
      x += count * x_step;
      out += count * out_step;
      left -= count;
    }
  }
}

}  // namespace
}  // namespace octavo::kernels
