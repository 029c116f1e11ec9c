#include "model/weights/packed_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/linear/convert.h"
#include "model/weights/dtype_plan.h"
#include "model/weights/manifest.h"
#include "model/weights/quantize.h"

namespace octavo::model {
namespace {

using checkpoint::Tensor;
using checkpoint::TensorType;
using kernels::WeightFormat;

WeightFormat affine_format(int64_t bits, int64_t group) {
  const auto first = int(bits == 4 ? WeightFormat::kI4G32 : WeightFormat::kI8G32);
  return WeightFormat(first + (group == 128 ? 2 : group == 64 ? 1 : 0));
}

/// Writes one row of blocks from its unpacked numbers.
void write_row(std::byte* out, const uint8_t* q, const float* scales, const uint8_t* zeros,
               int64_t num_cols, int64_t group_cols, WeightFormat format) {
  const int64_t block = kernels::block_elements(format);
  const bool is_nibbles = format < WeightFormat::kI8G32;
  for (int64_t k = 0; k < num_cols; k += block) {
    const int64_t g = k / group_cols;
    const uint16_t zero = kernels::f16_from_float(float(zeros[g]));
    std::memcpy(out, &scales[g], 4);
    std::memcpy(out + 4, &zero, 2);
    out += 6;
    if (!is_nibbles) {
      std::memcpy(out, q + k, size_t(block));
      out += block;
      continue;
    }
    for (int64_t i = k; i < k + block; i += 32) {
      for (int64_t j = 0; j < 16; ++j) *out++ = std::byte(q[i + j] | q[i + 16 + j] << 4);
    }
  }
}

}  // namespace

std::string PackedModule::name_of(std::string_view suffix) const {
  return fmt::format("{}.{}", request_.module, suffix);
}

PackedModule::Kind PackedModule::kind() const {
  const auto has = [&](std::string_view suffix) {
    return checkpoint_.find(name_of(suffix)) != nullptr;
  };
  const Tensor* weight = checkpoint_.find(name_of("weight"));
  switch (plan_.method) {
    case QuantMethod::kGptq:
      return has("qweight") ? Kind::kGptq : Kind::kNone;
    case QuantMethod::kAwq:
      return has("qweight") ? Kind::kAwq : Kind::kNone;
    case QuantMethod::kCompressedTensors:
      if (has("weight_packed")) return Kind::kPackedInts;
      if (weight != nullptr && weight->type == TensorType::kI8) return Kind::kInt8;
      [[fallthrough]];
    default:
      return weight != nullptr && weight->type == TensorType::kF8_E4M3 ? Kind::kF8 : Kind::kNone;
  }
}

Error PackedModule::error(const Tensor& tensor, std::string_view what) const {
  return {Code::kInvalidArgument,
          fmt::format("{}: tensor {} {} ({} of a matrix of {} by {})", tensor.file, tensor.name,
                      what, plan_.name(), num_rows(), num_cols())};
}

const Tensor* PackedModule::find(std::string_view suffix) const {
  const Tensor* tensor = checkpoint_.find(name_of(suffix));
  if (tensor != nullptr) source_.mark_taken(*tensor);
  return tensor;
}

Result<const Tensor*> PackedModule::require(std::string_view suffix) const {
  if (const Tensor* tensor = find(suffix)) return tensor;
  return Error{Code::kInvalidArgument,
               fmt::format("{}: tensor {} is missing, which {} of {} needs", checkpoint_.path(),
                           name_of(suffix), plan_.name(), request_.module)};
}

Result<const Tensor*> PackedModule::require(std::string_view suffix, TensorType type,
                                            std::initializer_list<int64_t> shape) const {
  OCTAVO_TRY(const Tensor* tensor, require(suffix));
  if (tensor->type == type && std::ranges::equal(tensor->shape, shape)) return tensor;
  const std::vector<int64_t> wanted(shape);
  return error(*tensor, fmt::format("is {} {}, and should be {} {}",
                                    checkpoint::name_of(tensor->type), show_shape(tensor->shape),
                                    checkpoint::name_of(type), show_shape(wanted)));
}

Result<std::vector<float>> PackedModule::read_floats(const Tensor& tensor) const {
  const std::optional<WeightFormat> format = format_of(tensor.type);
  if (!format || is_quantised(*format)) {
    return error(tensor, fmt::format("is {}; F32, F16 or BF16 can be read",
                                     checkpoint::name_of(tensor.type)));
  }
  int64_t count = 1;
  for (const int64_t dim : tensor.shape) count *= dim;
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    values[size_t(i)] = kernels::load_element(*format, tensor.data.data(), i);
    if (!std::isfinite(values[size_t(i)])) {
      return error(tensor, fmt::format("holds a value that is not finite, at {}", i));
    }
  }
  return values;
}

uint32_t load_word(const Tensor& tensor, int64_t index) {
  uint32_t word;
  std::memcpy(&word, tensor.data.data() + 4 * index, 4);
  return word;
}

Result<SourceTensor> pack_affine(const PackedModule& module, const Tensor& weight,
                                 AffineMatrix matrix) {
  const int64_t num_rows = module.num_rows(), num_cols = module.num_cols();
  const int64_t group_cols = num_cols / matrix.num_groups;
  const int64_t block = group_of(group_cols);
  if (block == 0 || group_cols * matrix.num_groups != num_cols) {
    return module.error(weight, fmt::format("has {} groups for {} columns; octavo runs groups of "
                                            "a multiple of 32",
                                            matrix.num_groups, num_cols));
  }
  SourceTensor result;
  result.format = affine_format(matrix.bits, block);
  const size_t row_bytes = kernels::row_bytes(result.format, num_cols);
  OCTAVO_TRY(result.owned, device::Buffer::create(size_t(num_rows) * row_bytes, true));
  result.data = result.owned.data();
  std::byte* const out = result.owned.data();
  constexpr int64_t kRows = 16;  // read together: formats that lie along the rows fill cache lines
  const int64_t num_chunks = (num_rows + kRows - 1) / kRows;
  module.pool().parallel_for(num_chunks, 1, [&](int64_t begin, int64_t end, int) {
    std::vector<uint8_t> q(static_cast<size_t>(kRows * num_cols));
    std::vector<uint8_t> sorted(matrix.col_order.size());
    for (int64_t row = begin * kRows; row < std::min(end * kRows, num_rows); row += kRows) {
      const int64_t count = std::min(kRows, num_rows - row);
      matrix.unpack(row, count, q.data());
      for (int64_t i = 0; i < count; ++i) {
        const uint8_t* from = q.data() + i * num_cols;
        for (size_t k = 0; k < sorted.size(); ++k) sorted[k] = from[matrix.col_order[k]];
        const int64_t groups = (row + i) * matrix.num_groups;
        write_row(out + size_t(row + i) * row_bytes, sorted.empty() ? from : sorted.data(),
                  &matrix.scales[size_t(groups)], &matrix.zeros[size_t(groups)], num_cols,
                  group_cols, result.format);
      }
    }
  });
  result.col_order = std::move(matrix.col_order);
  return result;
}

Result<std::vector<int32_t>> read_col_order(const PackedModule& module, const Tensor& g_idx,
                                            int64_t num_groups) {
  const int64_t num_cols = module.num_cols();
  std::vector<int64_t> counts(static_cast<size_t>(num_groups));
  for (int64_t k = 0; k < num_cols; ++k) {
    const auto group = int32_t(load_word(g_idx, k));
    if (group < 0 || group >= num_groups) {
      return module.error(g_idx,
                          fmt::format("puts column {} in group {} of {}", k, group, num_groups));
    }
    ++counts[size_t(group)];
  }
  for (size_t group = 0; group < counts.size(); ++group) {
    if (counts[group] != num_cols / num_groups) {
      return module.error(g_idx, fmt::format("puts {} columns in group {}; octavo runs groups of "
                                             "equal size, here {}",
                                             counts[group], group, num_cols / num_groups));
    }
  }
  std::vector<int32_t> order(static_cast<size_t>(num_cols));
  std::iota(order.begin(), order.end(), 0);
  const auto group_of_col = [&](int32_t k) { return int32_t(load_word(g_idx, k)); };
  if (std::ranges::is_sorted(order, {}, group_of_col)) return std::vector<int32_t>();
  std::ranges::stable_sort(order, {}, group_of_col);
  return order;
}

}  // namespace octavo::model
