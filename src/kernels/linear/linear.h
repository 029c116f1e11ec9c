#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "device/memory.h"
#include "device/thread_pool.h"
#include "kernels/context.h"

namespace octavo::kernels {

/// How weights are stored, in the file and packed: a 4-bit weight stays 4 bits.
/// Q8_0 to Q5_1: GGUF blocks of 32 along K; Q4_K, Q5_K, Q6_K: GGUF super-blocks of 256. The others
/// are what quantised Hugging Face checkpoints are turned into, groups of 32, 64 or 128 along K:
///   I4G*, I8G*  d * (q - z), q unsigned of 4 or 8 bits. A group of a row: f32 d, f16 z (an integer
///               from 0 to 255), then q; 4 bits: in each 32 elements i and i + 16 share a byte
///   F8G*        d * q, q a finite e4m3 code. A group of a row: f32 d, then q
enum class WeightFormat : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kI4G32,
  kI4G64,
  kI4G128,
  kI8G32,
  kI8G64,
  kI8G128,
  kF8G32,
  kF8G64,
  kF8G128,
};
inline constexpr size_t kWeightFormatCount = 20;

std::string_view name_of(WeightFormat format);
/// Columns of one block: 1, 32, 64, 128 or 256. A row is a whole number of blocks.
int64_t block_elements(WeightFormat format);
/// Bytes of one row of `num_cols` elements as it lies in a file.
size_t row_bytes(WeightFormat format, int64_t num_cols);

/// How a product is computed.
///   kNative  bf16 weights: x rounded to bf16, bf16 dot, f32 sums. f16 and f32 weights: f32
///            arithmetic (x rounded to f16 first for f16). Block formats: x quantised to int8 per
///            row and block of 32, exact integer sums, scales applied in a fixed order. F8: f32
///            arithmetic on x as it is.
///   kF32     whatever the format: weights widened inside the kernel, all arithmetic in f32. No
///            expanded copy.
enum class Arithmetic : uint8_t { kNative, kF32 };

/// Some rows of a matrix as they lie in a file, row-major, num_cols elements each.
struct WeightPart {
  const std::byte* data = nullptr;
  WeightFormat format = WeightFormat::kF32;
  int64_t num_rows = 0;
  /// Row i of the packed part is row `row_order[i]` of the source; empty means identity. (GGUF
  /// files of the llama family store q and k with their rotary pairs interleaved.)
  std::vector<int32_t> row_order = {};
};

/// Rows of a packed matrix that lie together; a part that starts at a multiple of it can be used by
/// itself.
inline constexpr int64_t kRowAlignment = 16;

/// A weight matrix [num_rows, num_cols] in the order in which the kernels read it.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  /// Stacks `parts` (q, k, v; gate, up) into one matrix and packs it. `format` is the packed
  /// format: the parts' own, or any of F32, F16, BF16 when the parts are of these (then values are
  /// converted, round to nearest even). Errors: kUnsupported for another combination,
  /// kInvalidArgument when num_cols does not suit the block size. `arena`: where it lies, beside
  /// the other matrices of a model; nullptr: by itself.
  static Result<PackedMatrix> create(const KernelContext& ctx, std::span<const WeightPart> parts,
                                     int64_t num_cols, WeightFormat format, Arithmetic arithmetic,
                                     device::Arena* arena = nullptr);

  int64_t num_rows() const { return num_rows_; }
  int64_t num_cols() const { return num_cols_; }
  WeightFormat format() const { return format_; }
  Arithmetic arithmetic() const { return arithmetic_; }
  size_t size_bytes() const { return buffer_.size_bytes(); }
  const std::byte* data() const { return buffer_.data(); }

  /// The first `num_rows` rows, as threads share them out.
  device::Reading reading(int64_t num_rows) const;
  /// What is read after this matrix in a step: its products let waiting threads fetch it.
  void set_next(const device::Reading& next) { next_ = next; }
  const device::Reading& next() const { return next_; }

  /// Which element of a row of x column k is multiplied with: col_order[k], once each; empty: k.
  /// (GPTQ's act-order: columns of a group lie anywhere in the file, and together here.) `linear`
  /// and `gated_linear` gather x; a product of prepared rows takes them in the packed order, so its
  /// matrix must have none. kInvalidArgument for what is no permutation.
  Status set_col_order(std::vector<int32_t> col_order);
  const std::vector<int32_t>& col_order() const { return col_order_; }
  std::vector<int32_t> take_col_order() { return std::exchange(col_order_, {}); }

 private:
  device::Buffer buffer_;
  std::vector<int32_t> col_order_;
  device::Reading next_;
  int64_t num_rows_ = 0;
  int64_t num_cols_ = 0;
  WeightFormat format_ = WeightFormat::kF32;
  Arithmetic arithmetic_ = Arithmetic::kNative;
};

/// The rms_norm of rows of x on their way into a product: never written to memory as f32.
struct RowNorm {
  const float* weight = nullptr;  // [num_cols]
  float eps = 0;
};

/// What happens to the product: stored, or added to what `out` holds (residual).
enum class Epilogue : uint8_t { kStore, kAdd };

/// out = x W^T (+ bias), or out += ...
///   out   [num_tokens, num_rows]  f32, rows `out_stride` apart
///   x     [num_tokens, num_cols]  f32, rows `x_stride` apart; may not overlap out
///   bias  [num_rows] f32, or nullptr
///   norm  of the rows of x, or nullptr; as rms_norm before, but what is quantised: taken_out.h
/// The result of a row depends on that row alone: not on num_tokens, the tile, or the threads.
void linear(const KernelContext& ctx, float* out, int64_t out_stride, const float* x,
            int64_t x_stride, int64_t num_tokens, const PackedMatrix& weight, const float* bias,
            Epilogue epilogue, const RowNorm* norm = nullptr);

/// Bytes of a row of x in the form in which the kernels of this machine multiply it with `weight`.
size_t prepared_row_bytes(const PackedMatrix& weight);

/// `linear` of rows that another op left prepared: [num_tokens] rows of prepared_row_bytes(weight),
/// contiguous. `weight` has no col_order.
void linear_prepared(const KernelContext& ctx, float* out, int64_t out_stride, const std::byte* x,
                     int64_t num_tokens, const PackedMatrix& weight, const float* bias,
                     Epilogue epilogue);

/// Scratch that `linear` takes from the workspace for `num_tokens` rows on a pool of `num_threads`,
/// bytes.
size_t linear_workspace_bytes(const PackedMatrix& weight, int64_t num_tokens, int num_threads);

}  // namespace octavo::kernels
