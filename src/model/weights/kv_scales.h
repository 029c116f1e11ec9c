#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "device/dtype.h"
#include "model/architectures/architecture.h"
#include "model/weights/quantization.h"
#include "model/weights/weight_source.h"

namespace octavo::model {

/// Of one layer's KV cache of one byte: codes of K and V stand for value / scale.
struct KvScales {
  float k = 1.0f;
  float v = 1.0f;
  bool operator==(const KvScales&) const = default;
};

/// Type of the KV cache: `asked` (--kv-cache-dtype; nullopt: auto), or e4m3 where that is auto and
/// a compressed-tensors checkpoint has a `kv_cache_scheme`, as in vLLM. kUnsupported for a scheme
/// that is not one symmetric 8-bit float scale a layer; a cache of more bytes does not look at it.
Result<std::optional<device::DType>> plan_kv_dtype(std::optional<device::DType> asked,
                                                   const Quantization& quantization,
                                                   const checkpoint::Checkpoint& checkpoint);

/// Reads the scales that a Hugging Face checkpoint holds for a cache of `kv_dtype`, of every layer;
/// empty: it has none, or the cache has no codes. Takes them from `source`, and with them what else
/// calibration leaves there and nothing here reads (scales of queries and of probabilities, zero
/// points). Errors name file, tensor and value: more numbers than one, one of two missing, one
/// given twice, or none that a code can be multiplied with.
Result<std::vector<KvScales>> take_kv_scales(device::DType kv_dtype,
                                             const checkpoint::Checkpoint& checkpoint,
                                             const Architecture& architecture, int64_t num_layers,
                                             WeightSource& source);

}  // namespace octavo::model
