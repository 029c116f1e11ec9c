#pragma once

#include <cstdint>

namespace octavo::kernels {

/// out[i] = silu(gate[i]) * up[i], with silu(x) = x / (1 + exp(-x)); on the calling thread, a part
/// of gated_linear.
///   gate, up, out  [size] f32; out may be gate or up
void silu_and_mul(float* out, const float* gate, const float* up, int64_t size);

}  // namespace octavo::kernels
