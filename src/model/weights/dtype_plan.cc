#include "model/weights/dtype_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/architectures/common.h"

namespace octavo::model {
namespace {

using kernels::WeightFormat;

DTypePlan explicit_plan(DTypeChoice choice) {
  switch (choice) {
    case DTypeChoice::kFloat32:
      return {device::DType::kF32, kernels::Arithmetic::kF32, std::nullopt};
    case DTypeChoice::kFloat16:
      return {device::DType::kF16, kernels::Arithmetic::kNative, WeightFormat::kF16};
    default:
      return {device::DType::kBF16, kernels::Arithmetic::kNative, WeightFormat::kBF16};
  }
}

/// The format that holds most bytes; BF16 where there are no weights.
WeightFormat main_format(const checkpoint::Checkpoint& checkpoint) {
  std::array<size_t, kernels::kWeightFormatCount> bytes{};
  for (const checkpoint::Tensor& tensor : checkpoint.tensors()) {
    if (const auto format = format_of(tensor.type)) bytes[size_t(*format)] += tensor.data.size();
  }
  const auto most = std::max_element(bytes.begin(), bytes.end());
  return *most == 0 ? WeightFormat::kBF16 : WeightFormat(most - bytes.begin());
}

DTypePlan plan_as_stored(const checkpoint::Checkpoint& checkpoint) {
  const WeightFormat format = main_format(checkpoint);
  if (format == WeightFormat::kF32) return explicit_plan(DTypeChoice::kFloat32);
  const device::DType dtype =
      format == WeightFormat::kF16 ? device::DType::kF16 : device::DType::kBF16;
  return {dtype, kernels::Arithmetic::kNative, std::nullopt};
}

}  // namespace

std::optional<WeightFormat> format_of(checkpoint::TensorType type) {
  switch (type) {
    case checkpoint::TensorType::kF32:
      return WeightFormat::kF32;
    case checkpoint::TensorType::kF16:
      return WeightFormat::kF16;
    case checkpoint::TensorType::kBF16:
      return WeightFormat::kBF16;
    case checkpoint::TensorType::kQ8_0:
      return WeightFormat::kQ8_0;
    case checkpoint::TensorType::kQ4_0:
      return WeightFormat::kQ4_0;
    case checkpoint::TensorType::kQ4_1:
      return WeightFormat::kQ4_1;
    case checkpoint::TensorType::kQ5_0:
      return WeightFormat::kQ5_0;
    case checkpoint::TensorType::kQ5_1:
      return WeightFormat::kQ5_1;
    case checkpoint::TensorType::kQ4_K:
      return WeightFormat::kQ4_K;
    case checkpoint::TensorType::kQ5_K:
      return WeightFormat::kQ5_K;
    case checkpoint::TensorType::kQ6_K:
      return WeightFormat::kQ6_K;
    default:
      return std::nullopt;
  }
}

bool is_quantised(WeightFormat format) { return kernels::block_elements(format) > 1; }

Result<DTypePlan> plan_dtype(DTypeChoice choice, const DecoderConfig& config,
                             const checkpoint::Checkpoint& checkpoint,
                             const Quantization& quantization) {
  if (choice != DTypeChoice::kAuto) return explicit_plan(choice);
  const std::string& declared = config.dtype;
  if (declared.empty() || declared == "auto") return plan_as_stored(checkpoint);
  if (declared == "bfloat16") return explicit_plan(DTypeChoice::kBFloat16);
  if (declared == "float16" || declared == "half") return explicit_plan(DTypeChoice::kFloat16);
  if (declared == "float32" || declared == "float") {
    // What is left unquantised keeps its values.
    if (quantization.is_packed()) {
      return DTypePlan{device::DType::kBF16, kernels::Arithmetic::kNative, std::nullopt};
    }
    return explicit_plan(DTypeChoice::kFloat32);
  }
  return Error{Code::kUnsupported,
               fmt::format("{}: dtype is \"{}\"; octavo runs bfloat16, float16 and float32 "
                           "(--dtype chooses one of them)",
                           config_file_of(checkpoint), declared.substr(0, 64))};
}

}  // namespace octavo::model
