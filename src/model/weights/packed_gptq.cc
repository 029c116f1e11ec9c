#include <fmt/format.h>

#include "model/weights/packed_modules.h"

// GPTQ and AWQ: both keep the matrix turned, inputs first, words of 32 bits.
//   GPTQ  qweight [K * bits / 32, N]   input k is bits (k % p) * bits.. of word k / p, p = 32 /
//   bits
//         qzeros  [G, N * bits / 32]   output n the same way; from the format "gptq" on 1 is
//         missing scales  [G, N]   g_idx [K] the group of each input (absent or empty: in order)
//   AWQ   qweight [K, N / 8], qzeros [G, N / 8]   of eight outputs, nibble i holds kNibbleOf's
//         scales  [G, N]
// Value: scales[g, n] * (qweight[k, n] - qzeros[g, n]).
// Sources: GPTQModel's BaseQuantLinear.dequantize_weight and convert_gptq_v1_to_v2_format,
// AutoAWQ's packing_utils.dequantize_gemm.

namespace octavo::model {
namespace {

using checkpoint::Tensor;
using checkpoint::TensorType;

/// [num_groups, num_rows] on its other side.
template <class T>
std::vector<T> turned(const std::vector<T>& from, int64_t num_groups, int64_t num_rows) {
  std::vector<T> to(from.size());
  for (int64_t g = 0; g < num_groups; ++g) {
    for (int64_t n = 0; n < num_rows; ++n) {
      to[size_t(n * num_groups + g)] = from[size_t(g * num_rows + n)];
    }
  }
  return to;
}

/// scales [G, N], and how many groups they are.
struct Scales {
  int64_t num_groups = 0;
  std::vector<float> values;  // [num_rows, num_groups]
};
Result<Scales> read_scales(const PackedModule& module) {
  OCTAVO_TRY(const Tensor* tensor, module.require("scales"));
  const int64_t num_rows = module.num_rows(), num_cols = module.num_cols();
  if (tensor->shape.size() != 2 || tensor->shape[1] != num_rows || tensor->shape[0] < 1 ||
      tensor->shape[0] > num_cols) {
    return module.error(*tensor, fmt::format("is not of shape [groups, {}]", num_rows));
  }
  OCTAVO_TRY(const std::vector<float> values, module.read_floats(*tensor));
  return Scales{tensor->shape[0], turned(values, tensor->shape[0], num_rows)};
}

/// Both need whole words of outputs.
Status check_rows(const PackedModule& module, const Tensor& weight, int64_t per_word) {
  if (module.num_rows() % per_word == 0) return {};
  return module.error(weight, fmt::format("packs outputs by {}, of which {} is no multiple",
                                          per_word, module.num_rows()));
}

/// Where AWQ puts output i of eight.
constexpr int kNibbleOf[8] = {0, 4, 1, 5, 2, 6, 3, 7};

}  // namespace

Result<SourceTensor> read_gptq(const PackedModule& module) {
  const int64_t num_rows = module.num_rows(), num_cols = module.num_cols();
  const int64_t bits = module.plan().bits;
  const int64_t per_word = 32 / bits;
  const uint32_t mask = (1u << bits) - 1;
  OCTAVO_TRY(const Tensor* weight,
             module.require("qweight", TensorType::kI32, {num_cols * bits / 32, num_rows}));
  OCTAVO_TRY(check_rows(module, *weight, per_word));
  AffineMatrix matrix{.bits = bits};
  OCTAVO_TRY(Scales scales, read_scales(module));
  matrix.num_groups = scales.num_groups;
  matrix.scales = std::move(scales.values);
  OCTAVO_TRY(const Tensor* zeros,
             module.require("qzeros", TensorType::kI32, {matrix.num_groups, num_rows / per_word}));
  // Added to a whole word, carries included, as it was taken away by who wrote it.
  const uint32_t one_each = module.plan().zeros_minus_one ? 0xffffffffu / mask : 0;
  matrix.zeros.resize(matrix.scales.size());
  for (int64_t g = 0; g < matrix.num_groups; ++g) {
    for (int64_t n = 0; n < num_rows; ++n) {
      const uint32_t word = load_word(*zeros, (g * num_rows + n) / per_word) + one_each;
      matrix.zeros[size_t(n * matrix.num_groups + g)] =
          uint8_t(word >> (n % per_word * bits) & mask);
    }
  }
  if (const Tensor* g_idx = module.find("g_idx"); g_idx != nullptr && !g_idx->data.empty()) {
    OCTAVO_TRY(g_idx, module.require("g_idx", TensorType::kI32, {num_cols}));
    OCTAVO_TRY(matrix.col_order, read_col_order(module, *g_idx, matrix.num_groups));
  }
  matrix.unpack = [=](int64_t row, int64_t count, uint8_t* q) {
    for (int64_t k = 0; k < num_cols; k += per_word) {
      for (int64_t n = 0; n < count; ++n) {
        const uint32_t word = load_word(*weight, k / per_word * num_rows + row + n);
        uint8_t* to = q + n * num_cols + k;
        for (int64_t i = 0; i < per_word; ++i) to[i] = uint8_t(word >> (i * bits) & mask);
      }
    }
  };
  return pack_affine(module, *weight, std::move(matrix));
}

Result<SourceTensor> read_awq(const PackedModule& module) {
  const int64_t num_rows = module.num_rows(), num_cols = module.num_cols();
  constexpr int64_t kPerWord = 8;
  OCTAVO_TRY(const Tensor* weight,
             module.require("qweight", TensorType::kI32, {num_cols, num_rows / kPerWord}));
  OCTAVO_TRY(check_rows(module, *weight, kPerWord));
  AffineMatrix matrix{.bits = 4};
  OCTAVO_TRY(Scales scales, read_scales(module));
  matrix.num_groups = scales.num_groups;
  matrix.scales = std::move(scales.values);
  OCTAVO_TRY(const Tensor* zeros,
             module.require("qzeros", TensorType::kI32, {matrix.num_groups, num_rows / kPerWord}));
  const auto nibble = [](uint32_t word, int64_t n) {
    return uint8_t(word >> (4 * kNibbleOf[n % kPerWord]) & 15);
  };
  matrix.zeros.resize(matrix.scales.size());
  for (int64_t g = 0; g < matrix.num_groups; ++g) {
    for (int64_t n = 0; n < num_rows; ++n) {
      matrix.zeros[size_t(n * matrix.num_groups + g)] =
          nibble(load_word(*zeros, (g * num_rows + n) / kPerWord), n);
    }
  }
  matrix.unpack = [=](int64_t row, int64_t count, uint8_t* q) {
    for (int64_t k = 0; k < num_cols; ++k) {
      for (int64_t n = 0; n < count; ++n) {
        q[n * num_cols + k] = nibble(load_word(*weight, (k * num_rows + row + n) / kPerWord), n);
      }
    }
  };
  return pack_affine(module, *weight, std::move(matrix));
}

}  // namespace octavo::model
