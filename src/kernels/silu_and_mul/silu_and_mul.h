#pragma once

#include <cstdint>

#include "kernels/context.h"

namespace octavo::kernels {

/// out = silu(gate) * up, with silu(x) = x / (1 + exp(-x)).
///   gate_up  [num_tokens, 2 * size] f32: gate in the first half of a row, up in the second
///   out      [num_tokens, size] f32 contiguous; may not overlap gate_up
void silu_and_mul(const KernelContext& ctx, float* out, const float* gate_up, int64_t num_tokens,
                  int64_t size);

}  // namespace octavo::kernels
