#pragma once

#include <cstdint>
#include <span>

#include "model/activations.h"
#include "model/layers/linear.h"

namespace octavo::model {

/// x *= factor, element by element; a factor of 1 costs nothing.
void scale(const kernels::KernelContext& ctx, float* x, int64_t count, float factor);

/// activations.hidden += multiplier * projection(x), first `num_rows` rows: how attention and MLP
/// enter the residual stream. Other multipliers than 1 overwrite activations.normed.
Status add_to_residual(const kernels::KernelContext& ctx, const Activations& activations,
                       const Linear& projection, const float* x, int64_t num_rows, float multiplier,
                       std::span<const int32_t> row_adapters);

}  // namespace octavo::model
