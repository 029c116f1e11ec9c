#include "model/layers/mlp.h"

#include <algorithm>

#include "base/check.h"

namespace octavo::model {
namespace {

/// Gate and up: a matrix each, or one above the other in one.
std::pair<kernels::WeightRows, kernels::WeightRows> halves_of(const Linear& gate_up) {
  const auto& matrices = gate_up.matrices();
  const int64_t size = gate_up.num_rows() / 2;
  const float* bias = gate_up.bias().empty() ? nullptr : gate_up.bias().data();
  const float* up_bias = bias == nullptr ? nullptr : bias + size;
  if (matrices.size() == 1) return {{&matrices[0], 0, bias}, {&matrices[0], size, up_bias}};
  CHECK_EQ(matrices.size(), size_t{2});
  return {{&matrices[0], 0, bias}, {&matrices[1], 0, up_bias}};
}

}  // namespace

device::Reading Mlp::reading() const {
  // A task takes some rows of gate, then those of up: the first half is shared out by itself.
  return gate_up_proj_.matrices().front().reading(gate_up_proj_.num_rows() / 2);
}

size_t Mlp::workspace_bytes(const StepLimits& limits) const {
  const auto [gate, up] = halves_of(gate_up_proj_);
  return std::max(
      kernels::gated_linear_workspace_bytes(gate, up, limits.num_tokens, limits.num_threads),
      down_proj_.workspace_bytes(limits.num_tokens, limits.num_threads));
}

Status Mlp::forward(const Step& step, int64_t num_rows, const kernels::RowNorm& norm,
                    std::span<const int32_t> row_adapters) const {
  const Activations& act = step.activations;
  OCTAVO_TRY(check_adapters(row_adapters));
  {
    const auto timer = gate_up_proj_.timer(step.ctx, kernels::Op::kGateUpProj, num_rows);
    const auto [gate, up] = halves_of(gate_up_proj_);
    kernels::gated_linear(step.ctx, act.mlp, act.hidden, gate_up_proj_.num_cols(), num_rows, gate,
                          up, down_proj_.matrices().front(), &norm);
  }
  const auto timer = down_proj_.timer(step.ctx, kernels::Op::kDownProj, num_rows);
  return add_to_residual(step.ctx, act, num_rows * down_proj_.num_rows(), residual_multiplier_,
                         [&](float* out, kernels::Epilogue epilogue) {
                           return down_proj_.forward_prepared(step.ctx, out, act.mlp, num_rows,
                                                              epilogue, row_adapters);
                         });
}

}  // namespace octavo::model
