#pragma once

#include <cstddef>
#include <cstdint>

// What linear.cc hands to the variants: plain data, safe to include where ISA flags are set.

namespace octavo::kernels {

/// What was taken out of a row of x: a number much larger than the others, which would make their
/// rounding coarse. It is multiplied in f32 (taken_out.h).
struct TakenOut {
  float value = 0;
  int32_t slot = 0;  // where its column is in TakenColumns::columns; 0: nothing was taken out
};
/// What was taken out of all rows of x.
struct TakenColumns {
  const TakenOut* rows = nullptr;    // of each row; nullptr: nothing, of none
  const int32_t* columns = nullptr;  // by slot, from 1 on
  int count = 0;                     // of slots, with slot 0
};
/// Floats from one slot's weights to the next: those of as many panels as any tile has.
inline constexpr int kTakenStride = 32;

/// One product. Packed weights are panels of 16 rows, the last one padded with zeros:
///   F32   [K][16] f32                       F16  [K][16] f16
///   BF16  [ceil(K / 2)][16][2] bf16
///   Q8_0  K/32 blocks of 16 f16 d · [8][16][4] u8 (q + 128)
///   Q4_0  K/32 blocks of 16 f16 d · [4][16][4] u8, elements 4l.. low and 16 + 4l.. high nibbles
///   Q4_1  as Q4_0 with 16 f16 m behind d
///   Q5_0  16 f16 d · [16] u32 fifth bits, bit g of byte j for element 4g + j · nibbles as Q4_0
///   Q5_1  as Q5_0 with 16 f16 m behind d
/// and of K/256 super-blocks, the file's words of 16 rows side by side ([words][16][4 bytes]):
///   Q4_K  16 f16 d · 16 f16 dmin · [3] words of scales · [32] of nibbles
///   Q5_K  as Q4_K with [8] words of fifth bits behind the scales
///   Q6_K  16 f16 d · [4] words of scales · [32] of low nibbles · [16] of upper pairs of bits
/// and of K/group groups:
///   I4G   16 f32 d · 16 f16 z · for each 32 columns [4][16][4] u8 of nibbles as Q4_0's
///   I8G   16 f32 d · 16 f16 z · for each 32 columns [8][16][4] u8
///   F8G   16 f32 d · [group / 2][16][2] codes
struct LinearCall {
  const std::byte* weight = nullptr;
  size_t panel_bytes = 0;
  int64_t num_rows = 0;  // of the weight: columns of out
  int64_t num_cols = 0;
  int64_t group_blocks = 1;      // of I4G, I8G, F8G: columns of a group / 32
  const std::byte* x = nullptr;  // as `prepare` left it, or the caller's f32
  size_t x_row_bytes = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
  int64_t out_row = 0;  // row and column of the product that lie at `out`
  int64_t out_column = 0;
  const float* bias = nullptr;
  bool add = false;
  std::byte* scratch = nullptr;  // a piece for each thread
  size_t scratch_bytes = 0;      // of one piece
  TakenColumns taken;
  // Weights of these columns, [taken.count][kTakenStride], slot 0's all 0, of the panels that a
  // thread is at; the threads' pieces are scratch_bytes apart.
  float* taken_weights = nullptr;
};

/// The part of a product that one task computes.
struct LinearRange {
  int64_t row_begin, row_end;      // of x
  int64_t panel_begin, panel_end;  // of the weight
  int thread_index;                // whose scratch
  // What the same thread reads after the last panel: so many panels of this size, or nullptr.
  const std::byte* next_weight = nullptr;
  int64_t next_panels = 0;
};

using LinearRun = void (*)(const LinearCall& call, const LinearRange& range);
/// Rows of x that a product wants in another form.
struct RowsToPrepare {
  std::byte* out;
  size_t out_row_bytes;
  const float* x;
  int64_t x_stride;
  int64_t num_rows;
  int64_t num_cols;  // with a block format, of whole blocks
};
using LinearPrepare = void (*)(const RowsToPrepare& rows);

/// One row and block of quantised activations.
struct ActivationBlock {
  int8_t q[32];
  float s;  // x is about s * q
  union {
    int32_t c;    // -zero point of the weights * sum of q: what the integer sum starts from
    float s_sum;  // Q4_1: s * sum of q, the factor of the weights' minimum
  };
};
static_assert(sizeof(ActivationBlock) == 40);

/// The same for weights whose scales change after 16 columns (Q6_K): a starting value for each
/// half.
struct HalvesActivationBlock {
  int8_t q[32];
  float s;
  int32_t c[2];
};
static_assert(sizeof(HalvesActivationBlock) == 44);

inline constexpr int kPanelRows = 16;
inline constexpr int kQuantBlock = 32;
inline constexpr int kSuperBlock = 256;
/// Rows from which formats of nibbles or bytes alone unpack a panel before they multiply: it costs
/// about as much as the unpacking that two tiles save.
inline constexpr int64_t kUnpackRows = 32;
/// A block of 32 columns by 16 rows, unpacked.
inline constexpr size_t kUnpackedBlockBytes = 128 + 512;
/// Panels unpacked at a time, at most.
inline constexpr int kUnpackPanels = 2;
static_assert(kTakenStride >= kUnpackPanels * kPanelRows);
/// Index order of the arrays below: WeightFormat's.
inline constexpr int kNumWeightFormats = 20;
inline constexpr int kGroupSizes = 3;  // 32, 64, 128
enum : int {
  kIndexF32,
  kIndexF16,
  kIndexBF16,
  kIndexQ8_0,
  kIndexQ4_0,
  kIndexQ4_1,
  kIndexQ5_0,
  kIndexQ5_1,
  kIndexQ4_K,
  kIndexQ5_K,
  kIndexQ6_K,
  kIndexI4G32,  // and G64, G128
  kIndexI8G32 = kIndexI4G32 + kGroupSizes,
  kIndexF8G32 = kIndexI8G32 + kGroupSizes,
};

/// All kernels of one ISA. The rows of VNNI and of the bf16 dot hold only what differs from the row
/// below; the rest is nullptr.
struct LinearKernels {
  LinearRun native[kNumWeightFormats];
  LinearRun f32[kNumWeightFormats];
  int bf16_bytes;  // of one element of x as bf16 weights want it: bf16, or f32 holding a bf16,
                   // then the odd of each pair first
  LinearPrepare prepare[kNumWeightFormats];  // for native; nullptr: x is read as it is
};

// All constinit: linear.cc combines them while statics are initialised.
namespace generic {
extern const LinearKernels kLinear;
}
namespace avx2 {
extern const LinearKernels kLinear;
}
namespace avx2_vnni {
extern const LinearKernels kLinear;
}
namespace avx512_core {
extern const LinearKernels kLinear;
}
namespace avx512 {
extern const LinearKernels kLinear;
}
namespace avx512_bf16 {
extern const LinearKernels kLinear;
}

}  // namespace octavo::kernels
