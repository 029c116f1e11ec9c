#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear/linear.h"

namespace octavo::kernels {

/// Row `lane` of a packed panel of Q5_0, Q5_1, Q4_K, Q5_K or Q6_K, widened to f32: the values of
/// GGUF's own dequantisation. Layouts in linear_params.h.
///   out  [num_cols]
void widen_packed_block_row(float* out, const std::byte* panel, int lane, int64_t num_cols,
                            WeightFormat format);

}  // namespace octavo::kernels
