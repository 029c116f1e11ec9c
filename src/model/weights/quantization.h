#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"

namespace octavo::model {

enum class QuantMethod : uint8_t {
  kNone,
  // A checkpoint's own.
  kGguf,
  kGptq,
  kAwq,
  kCompressedTensors,
  kFp8,
  // `--quantization` of an unquantised checkpoint: packed when it is loaded.
  kOnlineInt8,
  kOnlineQ4,
  kOnlineFp8,
};

/// How the linear layers of one checkpoint are quantised. What can be read from the tensors
/// themselves (groups, zero points, which modules are left as they were) is not repeated here.
struct Quantization {
  QuantMethod method = QuantMethod::kNone;
  int64_t bits = 0;  // of integers; 0: compressed-tensors of several widths
  /// gptq: qzeros hold zero points minus one (checkpoint_format "gptq"), not as they are
  /// ("gptq_v2").
  bool zeros_minus_one = false;
  int64_t block_rows = 0, block_cols = 0;  // fp8: of weight_scale_inv

  bool is_online() const { return method >= QuantMethod::kOnlineInt8; }
  /// The checkpoint's own, in another form than GGUF's.
  bool is_packed() const { return method >= QuantMethod::kGptq && !is_online(); }
  /// As `--quantization` spells it; empty for none.
  std::string_view name() const;
};

/// What config.json's `quantization_config` (or GGUF) and `--quantization` (`flag`, empty: not
/// given) say together. Errors name both where they differ, the flag and the known ones where it
/// is unknown, the key and its value where a checkpoint wants what is not read, and both where
/// `--dtype` is none that the checkpoint's method runs in.
Result<Quantization> plan_quantization(std::string_view flag, DTypeChoice dtype,
                                       const checkpoint::Checkpoint& checkpoint);

}  // namespace octavo::model
