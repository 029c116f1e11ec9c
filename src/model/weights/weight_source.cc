#include "model/weights/weight_source.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace octavo::model {
namespace {

float f16_to_f32(uint16_t half) {
  const float sign = half & 0x8000 ? -1.0f : 1.0f;
  const int exponent = (half >> 10) & 0x1f;
  const float fraction = float(half & 0x3ff);
  if (exponent == 0) return sign * std::ldexp(fraction, -24);  // subnormal
  if (exponent == 31) return fraction == 0.0f ? sign * INFINITY : NAN;
  return sign * std::ldexp(1024.0f + fraction, exponent - 25);
}

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

/// Files align nothing inside a tensor beyond its element, and not always that.
template <class T>
T load(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + size_t(index) * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

Result<SourceTensor> WeightSource::take_matrix(const MatrixRequest& request) {
  const std::array<int64_t, 2> shape{request.num_rows, request.num_cols};
  return take(request.module + ".weight", shape, Fill::kRandom);
}

Result<std::vector<float>> to_f32(const SourceTensor& tensor, int64_t count,
                                  const std::string& name) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    switch (tensor.format) {
      case kernels::WeightFormat::kF32:
        values[size_t(i)] = load<float>(tensor.data, i);
        break;
      case kernels::WeightFormat::kF16:
        values[size_t(i)] = f16_to_f32(load<uint16_t>(tensor.data, i));
        break;
      case kernels::WeightFormat::kBF16:
        values[size_t(i)] = bf16_to_f32(load<uint16_t>(tensor.data, i));
        break;
      default:
        return Error{Code::kUnsupported, fmt::format("tensor {} is a vector stored as {}", name,
                                                     kernels::name_of(tensor.format))};
    }
  }
  return values;
}

}  // namespace octavo::model
