#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear/linear.h"

namespace octavo::kernels {

/// Row `lane` of a packed panel of Q5_0 or any later format, widened to f32: the values of GGUF's
/// own dequantisation, or d * q - d * z. Layouts in linear_params.h.
///   out  [num_cols]
void widen_packed_block_row(float* out, const std::byte* panel, int lane, int64_t num_cols,
                            WeightFormat format);

}  // namespace octavo::kernels
