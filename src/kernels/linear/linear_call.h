#pragma once

#include <cstdint>

#include "kernels/context.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/linear_params.h"

// Shared by the products of this folder: how a matrix becomes a call of the variants.

namespace octavo::kernels {

/// The chosen variant.
const LinearKernels& current_linear_kernels();
/// Its product for `weight`, and how it wants x; nullptr: as f32.
LinearRun run_of(const LinearKernels& kernels, const PackedMatrix& weight);
LinearPrepare prepare_of(const LinearKernels& kernels, const PackedMatrix& weight);

/// Bytes of the first `num_cols` columns of a prepared row; with a block format, of whole blocks.
size_t prepared_bytes(const PackedMatrix& weight, int64_t num_cols);

/// Rows [first_row, first_row + num_rows) of `weight`, from a panel's first on; x, out and scratch
/// are the caller's to fill.
LinearCall call_of(const PackedMatrix& weight, int64_t first_row, int64_t num_rows);

/// The call's scratch for `num_tokens` rows, of one thread: panels of 4-bit weights, unpacked.
size_t linear_scratch_bytes(const PackedMatrix& weight, int64_t num_tokens);

/// Rows of x as the kernels of `weight` read them.
struct PreparedRows {
  const std::byte* data = nullptr;
  size_t row_bytes = 0;
};
/// Prepares rows on the pool, in the order of the weight's columns, in memory from the workspace;
/// or gives x as it is, where that is what the kernels read.
PreparedRows prepare_rows(const KernelContext& ctx, const PackedMatrix& weight, const float* x,
                          int64_t x_stride, int64_t num_rows);
/// What it takes from the workspace at most, bytes.
size_t prepare_workspace_bytes(const PackedMatrix& weight, int64_t num_rows, int num_threads);

/// Rows a task takes at most: prepared, they stay in L2 while all the task's panels pass by. Fewer
/// rows mean that panels are unpacked more often.
int64_t rows_of_task(size_t x_row_bytes);

/// Below so many bytes of packed weight times rows a fork costs more than it saves (about 1 us).
inline constexpr int64_t kForkBytes = 24 << 10;
/// Tasks a thread: some more than one, so that a thread which lost its core for a while delays
/// little.
inline int64_t tasks_per_thread(int64_t num_tokens) { return num_tokens == 1 ? 4 : 8; }

}  // namespace octavo::kernels
