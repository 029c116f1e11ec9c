#include "model/layers/mlp.h"

#include <algorithm>

#include "kernels/silu_and_mul/silu_and_mul.h"

namespace octavo::model {

size_t Mlp::workspace_bytes(const StepLimits& limits) const {
  return std::max(gate_up_proj_.workspace_bytes(limits.num_tokens),
                  down_proj_.workspace_bytes(limits.num_tokens));
}

Status Mlp::forward(const Step& step, int64_t num_rows,
                    std::span<const int32_t> row_adapters) const {
  const Activations& act = step.activations;
  OCTAVO_TRY(gate_up_proj_.forward(step.ctx, act.gate_up, act.normed, num_rows,
                                   kernels::Epilogue::kStore, row_adapters));
  kernels::silu_and_mul(step.ctx, act.mlp, act.gate_up, num_rows, down_proj_.num_cols());
  return add_to_residual(step.ctx, act, down_proj_, act.mlp, num_rows, residual_multiplier_,
                         row_adapters);
}

}  // namespace octavo::model
