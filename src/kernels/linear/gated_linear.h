#pragma once

#include <cstdint>

#include "kernels/linear/linear.h"

namespace octavo::kernels {

/// Rows [first_row, first_row + size) of a packed matrix; first_row is a multiple of 16.
struct WeightRows {
  const PackedMatrix* matrix = nullptr;
  int64_t first_row = 0;
  const float* bias = nullptr;  // [size], or nullptr
};

/// out = silu(x G^T + b) * (x U^T + c), each row at once in the form in which `next` reads it
/// (linear_prepared): the product of a gated MLP's first half never reaches memory in f32.
///   out   [num_tokens] rows of prepared_row_bytes(next)
///   x     [num_tokens, num_cols] f32, rows `x_stride` apart; may not overlap out
///   norm  of the rows of x, or nullptr
///   gate, up  `size` rows each; next.num_cols() is size; next has no col_order
/// silu(v) = v / (1 + exp(-v)). A row's result depends on that row alone.
void gated_linear(const KernelContext& ctx, std::byte* out, const float* x, int64_t x_stride,
                  int64_t num_tokens, const WeightRows& gate, const WeightRows& up,
                  const PackedMatrix& next, const RowNorm* norm = nullptr);

/// Scratch that `gated_linear` takes from the workspace, bytes.
size_t gated_linear_workspace_bytes(const WeightRows& gate, const WeightRows& up,
                                    int64_t num_tokens, int num_threads);

}  // namespace octavo::kernels
