#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention/attention.h"
#include "model/activations.h"

namespace octavo::model {

/// What every layer of one step sees. Borrowed for the length of `forward`.
struct Step {
  const kernels::KernelContext& ctx;
  const Activations& activations;
  kernels::AttentionBatch attention;
  const int64_t* slot_mapping = nullptr;  // [num_tokens]
  int64_t num_tokens = 0;
  /// Rows whose logits are wanted, strictly ascending. Behind the last layer's attention only these
  /// are computed.
  std::span<const int32_t> logits_rows;
};

}  // namespace octavo::model
