#pragma once

#include <cstdint>

#include "kernels/context.h"

namespace octavo::kernels {

/// cos_sin[i] = {cos(positions[i] * inv_freq[j]) * scale for all j, then the sines}.
///   cos_sin    [num_tokens, 2 * num_freqs] f32
///   positions  [num_tokens];  inv_freq  [num_freqs] f32
/// The angle is the f32 product, as in transformers; `scale` is yarn's attention factor, else 1.
void rope_cos_sin(const KernelContext& ctx, float* cos_sin, const int32_t* positions,
                  int64_t num_tokens, const float* inv_freq, int64_t num_freqs, float scale);

/// Rotates in place the first 2 * num_freqs components of every head (halves paired: j with
/// j + num_freqs, the "neox" layout). Heads of one row are contiguous.
///   x        [num_tokens, num_heads, head_dim] f32, rows `x_stride` apart
///   cos_sin  [num_tokens, 2 * num_freqs]
void rope(const KernelContext& ctx, float* x, int64_t x_stride, const float* cos_sin,
          int64_t num_tokens, int64_t num_heads, int64_t head_dim, int64_t num_freqs);

}  // namespace octavo::kernels
