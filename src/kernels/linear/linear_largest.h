#pragma once

#include <cstdint>
#include <span>

#include "kernels/linear/linear.h"
#include "kernels/logits/logits.h"

namespace octavo::kernels {

/// What becomes of the rows of a product, [num_tokens] each.
struct LargestOutput {
  /// Where row t is stored, weight.num_rows() values; nullptr: nowhere, only its largest is wanted.
  std::span<float* const> whole;
  /// scan_logits of row t, if it is stored nowhere.
  std::span<LogitsScan> largest;
};

/// x W^T * factor, as `linear` and a multiplication of each value give it bit by bit; of rows of
/// which only the largest value is wanted the others never reach memory. One pass over the weights
/// whatever the mixture.
///   x     [num_tokens, num_cols]  f32, rows `x_stride` apart
///   norm  of the rows of x, or nullptr
void linear_largest(const KernelContext& ctx, const LargestOutput& out, const float* x,
                    int64_t x_stride, int64_t num_tokens, const PackedMatrix& weight, float factor,
                    const RowNorm* norm);

/// Scratch that `linear_largest` takes from the workspace, bytes.
size_t linear_largest_workspace_bytes(const PackedMatrix& weight, int64_t num_tokens,
                                      int num_threads);

}  // namespace octavo::kernels
