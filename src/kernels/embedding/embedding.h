#pragma once

#include <cstdint>

#include "kernels/linear/linear.h"

namespace octavo::kernels {

/// out[i] = row ids[i] of the packed table, widened to f32. Reads the packed layout, so that a tied
/// embedding needs no second copy.
///   out  [num_tokens, table.num_cols()] f32 contiguous;  ids  [num_tokens], each in [0, num_rows)
void embedding(const KernelContext& ctx, float* out, const int32_t* ids, int64_t num_tokens,
               const PackedMatrix& table);

}  // namespace octavo::kernels
