#pragma once

#include <cstdint>
#include <utility>

#include "base/result.h"
#include "kernels/linear/linear.h"
#include "model/activations.h"

namespace octavo::model {

/// x *= factor, element by element; a factor of 1 costs nothing.
void scale(const kernels::KernelContext& ctx, float* x, int64_t count, float factor);

/// out[i] += factor * x[i].
void add_scaled(const kernels::KernelContext& ctx, float* out, const float* x, int64_t count,
                float factor);

/// activations.hidden += multiplier * what `project(out, epilogue)` computes, its first `count`
/// elements: how attention and MLP enter the residual stream. Other multipliers than 1 overwrite
/// activations.projected.
template <class Project>
Status add_to_residual(const kernels::KernelContext& ctx, const Activations& activations,
                       int64_t count, float multiplier, Project project) {
  if (multiplier == 1.0f) return project(activations.hidden, kernels::Epilogue::kAdd);
  OCTAVO_TRY(project(activations.projected, kernels::Epilogue::kStore));
  add_scaled(ctx, activations.hidden, activations.projected, count, multiplier);
  return {};
}

}  // namespace octavo::model
