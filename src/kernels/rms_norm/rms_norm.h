#pragma once

#include <cstdint>

#include "kernels/context.h"

namespace octavo::kernels {

/// Root-mean-square norm of each row: out = x / sqrt(mean(x^2) + eps) * weight.
///   x, out  [num_rows, num_cols] f32, rows `x_stride` / `out_stride` apart; out may be x
///   weight  [num_cols] f32
/// Sums in f32 in a fixed order. The result of a row depends on that row alone.
/// Source: Zhang & Sennrich 2019; eps inside the root, as vLLM's RMSNorm.
void rms_norm(const KernelContext& ctx, float* out, int64_t out_stride, const float* x,
              int64_t x_stride, int64_t num_rows, int64_t num_cols, const float* weight, float eps);

}  // namespace octavo::kernels
