#include "model/layers/mlp.h"

#include <algorithm>

#include "kernels/profile.h"
#include "kernels/silu_and_mul/silu_and_mul.h"

namespace octavo::model {

size_t Mlp::workspace_bytes(const StepLimits& limits) const {
  return std::max(gate_up_proj_.workspace_bytes(limits.num_tokens),
                  down_proj_.workspace_bytes(limits.num_tokens));
}

Status Mlp::forward(const Step& step, int64_t num_rows) const {
  const Activations& act = step.activations;
  {
    const auto timer = gate_up_proj_.timer(step.ctx, kernels::Op::kGateUpProj, num_rows);
    OCTAVO_TRY(gate_up_proj_.forward(step.ctx, act.gate_up, act.normed, num_rows,
                                     kernels::Epilogue::kStore));
  }
  {
    const kernels::OpTimer timer(step.ctx, kernels::Op::kActivation);
    kernels::silu_and_mul(step.ctx, act.mlp, act.gate_up, num_rows, down_proj_.num_cols());
  }
  const auto timer = down_proj_.timer(step.ctx, kernels::Op::kDownProj, num_rows);
  return down_proj_.forward(step.ctx, act.hidden, act.mlp, num_rows, kernels::Epilogue::kAdd);
}

}  // namespace octavo::model
