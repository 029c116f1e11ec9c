#pragma once

#include "kernels/linear/gated_linear.h"
#include "model/layers/linear.h"
#include "model/layers/residual.h"
#include "model/layers/step.h"

namespace octavo::model {

/// Gated MLP: hidden += residual_multiplier * down(silu(gate(x)) * up(x)). gate_up_proj holds gate
/// above up, in one matrix if that leaves up at a panel's first row; down_proj is one matrix.
class Mlp {
 public:
  Mlp(Linear gate_up_proj, Linear down_proj, double residual_multiplier = 1.0)
      : gate_up_proj_(std::move(gate_up_proj)),
        down_proj_(std::move(down_proj)),
        residual_multiplier_(float(residual_multiplier)) {}

  size_t size_bytes() const { return gate_up_proj_.size_bytes() + down_proj_.size_bytes(); }
  size_t workspace_bytes(const StepLimits& limits) const;
  const Linear& gate_up_proj() const { return gate_up_proj_; }
  const Linear& down_proj() const { return down_proj_; }

  /// As Linear's.
  device::Reading reading() const;
  void set_next(const device::Reading& next) {
    gate_up_proj_.set_next(down_proj_.reading());
    down_proj_.set_next(next);
  }

  /// Reads the rows of activations.hidden through `norm` and adds to them; the first `num_rows`.
  Status forward(const Step& step, int64_t num_rows, const kernels::RowNorm& norm,
                 std::span<const int32_t> row_adapters = {}) const;

 private:
  Linear gate_up_proj_;
  Linear down_proj_;
  float residual_multiplier_;
};

}  // namespace octavo::model
