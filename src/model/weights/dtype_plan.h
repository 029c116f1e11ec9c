#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "device/dtype.h"
#include "kernels/linear/linear.h"
#include "model/decoder_config.h"
#include "model/model.h"
#include "model/weights/quantization.h"

namespace octavo::model {

/// nullopt for what is no weight by itself: integers, e4m3 without its scale.
std::optional<kernels::WeightFormat> format_of(checkpoint::TensorType type);
/// Stored in blocks with scales.
bool is_quantised(kernels::WeightFormat format);

/// What `--dtype` means for one checkpoint.
struct DTypePlan {
  device::DType dtype = device::DType::kBF16;  // what the model is said to run in
  kernels::Arithmetic arithmetic = kernels::Arithmetic::kNative;
  /// Unquantised matrices are converted to this when they are packed; nullopt: stay as stored.
  std::optional<kernels::WeightFormat> convert_to;
  std::optional<device::DType> kv_dtype = std::nullopt;  // of the KV cache; nullopt: `dtype`

  kernels::WeightFormat packed_format(kernels::WeightFormat stored) const {
    return is_quantised(stored) || !convert_to ? stored : *convert_to;
  }
};

/// float32 keeps the weights as stored and computes in f32; float16 and bfloat16 convert what is
/// not quantised. auto is the dtype that config.json declares, else (and for GGUF) that of most
/// weights, unconverted; a quantised checkpoint runs with bfloat16 KV, also where its config.json
/// declares float32. kUnsupported for a declared dtype that is none of the three.
Result<DTypePlan> plan_dtype(DTypeChoice choice, const DecoderConfig& config,
                             const checkpoint::Checkpoint& checkpoint,
                             const Quantization& quantization = {});

}  // namespace octavo::model
