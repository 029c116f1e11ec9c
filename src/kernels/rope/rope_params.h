#pragma once

#include <cstdint>

namespace octavo::kernels {

/// Rotates all heads of one row in place; cos and sin hold `num_freqs` values each.
using RopeRun = void (*)(float* x, const float* cos, const float* sin, int64_t num_heads,
                         int64_t head_dim, int64_t num_freqs);

namespace generic {
extern const RopeRun kRope;
}
namespace avx2 {
extern const RopeRun kRope;
}
namespace avx512_core {
extern const RopeRun kRope;
}

}  // namespace octavo::kernels
