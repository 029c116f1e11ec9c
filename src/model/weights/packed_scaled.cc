#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "model/weights/manifest.h"
#include "model/weights/packed_modules.h"
#include "model/weights/quantize.h"

// compressed-tensors and FP8: outputs first, like any matrix.
//   pack-quantized   weight_packed [N, K * bits / 32], input k is bits (k % p) * bits.. of word k /
//   p;
//                    weight_zero_point [N * bits / 32, G], output n the same way; both plus half
//                    the range, so that value = scale * (q - zero) without it
//   int-quantized    weight [N, K] I8, weight_zero_point I8 in the shape of the scale
//   float-quantized  weight [N, K] e4m3
//   fp8              weight [N, K] e4m3, weight_scale or weight_scale_inv, both factors
// weight_scale: one number; [N] or [N, 1]; [N, G]; or of blocks, [ceil(N / rows), ceil(K / cols)].
// Activations are not rounded as input_scale says: they stay f32 or become int8 by blocks of 32.
// Sources: compressed-tensors' pack_quantized and naive_quantized compressors and its
// lifecycle/forward.py; transformers' FP8Linear.

namespace octavo::model {
namespace {

using checkpoint::Tensor;
using checkpoint::TensorType;

/// One number for each row and group of columns.
struct Scales {
  int64_t num_groups = 1;
  int64_t group_cols = 0;     // of the last group perhaps fewer
  std::vector<float> values;  // [num_rows, num_groups]
};

/// How a tensor of scales, or of zero points, covers a matrix.
struct Grid {
  int64_t rows = 0, cols = 0;  // of the tensor
  int64_t block_rows = 1;      // rows of the matrix that share one
  int64_t block_cols = 1;
};

Result<Grid> grid_of(const PackedModule& module, const Tensor& tensor) {
  const int64_t num_rows = module.num_rows(), num_cols = module.num_cols();
  const int64_t block_rows = module.plan().block_rows, block_cols = module.plan().block_cols;
  const std::vector<int64_t>& shape = tensor.shape;
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  if (block_rows > 0 && shape.size() == 2 && shape[0] == (num_rows + block_rows - 1) / block_rows &&
      shape[1] == (num_cols + block_cols - 1) / block_cols) {
    return Grid{shape[0], shape[1], block_rows, block_cols};
  }
  if (count == 1 && shape.size() <= 2) return Grid{1, 1, num_rows, num_cols};
  if (shape.size() == 1 && shape[0] == num_rows) return Grid{num_rows, 1, 1, num_cols};
  if (shape.size() == 2 && shape[0] == num_rows && shape[1] >= 1 && num_cols % shape[1] == 0) {
    return Grid{num_rows, shape[1], 1, num_cols / shape[1]};
  }
  return module.error(
      tensor,
      fmt::format(
          "has shape {}, which gives no scale for each tensor, row, group "
          "of columns{}",
          show_shape(shape),
          block_rows > 0 ? fmt::format(" or block of {} by {}", block_rows, block_cols) : ""));
}

Result<Scales> read_scales(const PackedModule& module, const Tensor& tensor) {
  OCTAVO_TRY(const Grid grid, grid_of(module, tensor));
  OCTAVO_TRY(const std::vector<float> values, module.read_floats(tensor));
  Scales scales{grid.cols, grid.block_cols, {}};
  scales.values.reserve(size_t(module.num_rows() * grid.cols));
  for (int64_t n = 0; n < module.num_rows(); ++n) {
    const auto row = values.begin() + n / grid.block_rows * grid.cols;
    scales.values.insert(scales.values.end(), row, row + grid.cols);
  }
  return scales;
}

/// Zero points as unsigned numbers of `bits`: those of the file, or the middle of the range.
Result<std::vector<uint8_t>> read_zeros(const PackedModule& module, const Scales& scales,
                                        int64_t bits) {
  const int64_t num_rows = module.num_rows();
  const auto middle = uint8_t(1u << (bits - 1));
  std::vector<uint8_t> zeros(scales.values.size(), middle);
  const Tensor* tensor = module.find("weight_zero_point");
  if (tensor == nullptr) return zeros;
  if (tensor->type == TensorType::kI8) {
    OCTAVO_TRY(const Grid grid, grid_of(module, *tensor));
    if (grid.cols != scales.num_groups) {
      return module.error(*tensor, "has not the shape of weight_scale");
    }
    for (int64_t n = 0; n < num_rows; ++n) {
      for (int64_t g = 0; g < grid.cols; ++g) {
        const auto value = int8_t(tensor->data[size_t(n / grid.block_rows * grid.cols + g)]);
        if (value < -middle || value >= middle) {
          return module.error(*tensor, fmt::format("holds {}, beyond {} bits", value, bits));
        }
        zeros[size_t(n * grid.cols + g)] = uint8_t(value + middle);
      }
    }
    return zeros;
  }
  const int64_t per_word = 32 / bits;
  OCTAVO_TRY(tensor, module.require("weight_zero_point", TensorType::kI32,
                                    {(num_rows + per_word - 1) / per_word, scales.num_groups}));
  for (int64_t n = 0; n < num_rows; ++n) {
    for (int64_t g = 0; g < scales.num_groups; ++g) {
      const uint32_t word = load_word(*tensor, n / per_word * scales.num_groups + g);
      zeros[size_t(n * scales.num_groups + g)] =
          uint8_t(word >> (n % per_word * bits) & (2u * middle - 1));
    }
  }
  return zeros;
}

/// Scales and zero points of integers, and the order of columns.
Result<AffineMatrix> read_affine(const PackedModule& module, int64_t bits) {
  OCTAVO_TRY(const Tensor* tensor, module.require("weight_scale"));
  OCTAVO_TRY(Scales scales, read_scales(module, *tensor));
  AffineMatrix matrix{.bits = bits, .num_groups = scales.num_groups};
  OCTAVO_TRY(matrix.zeros, read_zeros(module, scales, bits));
  matrix.scales = std::move(scales.values);
  if (const Tensor* g_idx = module.find("weight_g_idx")) {
    OCTAVO_TRY(g_idx, module.require("weight_g_idx", TensorType::kI32, {module.num_cols()}));
    OCTAVO_TRY(matrix.col_order, read_col_order(module, *g_idx, matrix.num_groups));
  }
  // What belongs to activations.
  for (const char* suffix : {"input_scale", "input_zero_point"}) (void)module.find(suffix);
  return matrix;
}

}  // namespace

Result<SourceTensor> read_packed_ints(const PackedModule& module) {
  const int64_t num_cols = module.num_cols();
  OCTAVO_TRY(const Tensor* weight, module.require("weight_packed"));
  const int64_t words = weight->shape.size() == 2 ? weight->shape[1] : 0;
  const int64_t width = module.plan().bits;
  const int64_t bits = width != 0 ? width : words * 8 == num_cols ? 4 : 8;
  OCTAVO_TRY(weight, module.require("weight_packed", TensorType::kI32,
                                    {module.num_rows(), num_cols * bits / 32}));
  OCTAVO_TRY(AffineMatrix matrix, read_affine(module, bits));
  matrix.unpack = [=](int64_t row, int64_t count, uint8_t* q) {
    const int64_t per_word = 32 / bits;
    const uint32_t mask = (1u << bits) - 1;
    for (int64_t i = 0; i < count * num_cols; i += per_word) {
      const uint32_t word = load_word(*weight, (row * num_cols + i) / per_word);
      for (int64_t j = 0; j < per_word; ++j) q[i + j] = uint8_t(word >> (j * bits) & mask);
    }
  };
  return pack_affine(module, *weight, std::move(matrix));
}

Result<SourceTensor> read_int8(const PackedModule& module) {
  const int64_t num_cols = module.num_cols();
  OCTAVO_TRY(const Tensor* weight,
             module.require("weight", TensorType::kI8, {module.num_rows(), num_cols}));
  OCTAVO_TRY(AffineMatrix matrix, read_affine(module, 8));
  matrix.unpack = [=](int64_t row, int64_t count, uint8_t* q) {
    const std::byte* from = weight->data.data() + row * num_cols;
    for (int64_t i = 0; i < count * num_cols; ++i) q[i] = uint8_t(from[i] ^ std::byte{0x80});
  };
  return pack_affine(module, *weight, std::move(matrix));
}

Result<SourceTensor> read_f8(const PackedModule& module) {
  const int64_t num_rows = module.num_rows(), num_cols = module.num_cols();
  OCTAVO_TRY(const Tensor* weight,
             module.require("weight", TensorType::kF8_E4M3, {num_rows, num_cols}));
  const auto is_nan = [](std::byte code) { return (code & std::byte{0x7f}) == std::byte{0x7f}; };
  if (std::ranges::any_of(weight->data, is_nan)) return module.error(*weight, "holds a NaN");
  const Tensor* tensor = module.find("weight_scale_inv");
  if (tensor == nullptr) {
    OCTAVO_TRY(tensor, module.require("weight_scale"));
  }
  (void)module.find("input_scale");
  OCTAVO_TRY(const Scales scales, read_scales(module, *tensor));
  const int64_t group_cols = scales.group_cols;
  const int64_t block = group_of(std::gcd(group_cols, num_cols));
  if (block == 0) {
    return module.error(*weight, "has scales of columns that are no multiple of 32");
  }
  SourceTensor result;
  result.format = block == 128  ? kernels::WeightFormat::kF8G128
                  : block == 64 ? kernels::WeightFormat::kF8G64
                                : kernels::WeightFormat::kF8G32;
  const size_t row_bytes = kernels::row_bytes(result.format, num_cols);
  OCTAVO_TRY(result.owned, device::Buffer::create(size_t(num_rows) * row_bytes, true));
  result.data = result.owned.data();
  std::byte* const out = result.owned.data();
  module.pool().parallel_for(num_rows, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) {
      std::byte* to = out + size_t(n) * row_bytes;
      for (int64_t k = 0; k < num_cols; k += block) {
        std::memcpy(to, &scales.values[size_t(n * scales.num_groups + k / group_cols)], 4);
        std::memcpy(to + 4, weight->data.data() + n * num_cols + k, size_t(block));
        to += 4 + block;
      }
    }
  });
  return result;
}

}  // namespace octavo::model
