#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention/attention.h"
#include "model/activations.h"

namespace octavo::model {

/// Where the keys of one KV group's layers lie in this step.
struct StepKv {
  kernels::AttentionBatch attention;
  const int64_t* slot_mapping = nullptr;  // [num_tokens]
};

/// What every layer of one step sees. Borrowed for the length of `forward`.
struct Step {
  const kernels::KernelContext& ctx;
  const Activations& activations;
  std::span<const StepKv> kv_groups;  // [num_kv_groups]
  int64_t num_tokens = 0;
  /// Rows whose logits are wanted, strictly ascending. Behind the last layer's attention only these
  /// are computed.
  std::span<const int32_t> logits_rows;
  /// Adapter of each row, -1 = none, or empty: no row has one. Behind the last layer's attention
  /// those of logits_rows.
  std::span<const int32_t> row_adapters = {};
  std::span<const int32_t> logits_row_adapters = {};
};

}  // namespace octavo::model
