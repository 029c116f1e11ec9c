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

/// Rows of x as a caller has them.
struct InputRows {
  const float* data = nullptr;
  int64_t stride = 0;
  int64_t count = 0;
  const RowNorm* norm = nullptr;
};

/// Puts x, row_bytes and all into `call` as the kernels read them for `weight`: as they are, or
/// prepared on the pool in memory of the workspace.
void set_rows(const KernelContext& ctx, LinearCall& call, const InputRows& x,
              const PackedMatrix& weight);
/// What set_rows takes from the workspace at most.
size_t rows_bytes(const PackedMatrix& weight, int64_t num_tokens);

/// Rows a task takes at most: prepared, they stay in L2 while all the task's panels pass by. Fewer
/// rows mean that panels are unpacked more often.
int64_t rows_of_task(size_t x_row_bytes);

/// Below so many bytes of packed weight times rows a fork costs more than it saves (about 1 us).
inline constexpr int64_t kForkBytes = 24 << 10;
/// Tasks a thread: some more than one, so that a thread which lost its core for a while delays
/// little.
inline int64_t tasks_per_thread(int64_t num_tokens) { return num_tokens == 1 ? 4 : 8; }

/// How a product is shared out: in tasks of some rows by some panels.
struct TaskGrid {
  int64_t num_tokens, num_panels;  // of the product
  int64_t row_chunks, panel_chunks;
  int64_t panels;  // of a chunk, but for the last
  bool forks;      // worth more than one thread

  int64_t num_tasks() const { return row_chunks * panel_chunks; }
  int64_t most_rows() const { return (num_tokens + row_chunks - 1) / row_chunks; }
  /// A task most likely followed by its neighbour on the same thread (task_lanes.h).
  LinearRange range(const LinearCall& call, int64_t task, int thread_index) const {
    const int64_t chunk = task / panel_chunks;
    const int64_t panel = task % panel_chunks * panels;
    const int64_t panel_end = panel + panels < num_panels ? panel + panels : num_panels;
    return {num_tokens * chunk / row_chunks,
            num_tokens * (chunk + 1) / row_chunks,
            panel,
            panel_end,
            thread_index,
            call.weight + static_cast<size_t>(panel_end) * call.panel_bytes,
            num_panels - panel_end};
  }
};
/// At most tasks_per_thread(num_tokens) * num_threads chunks of panels.
TaskGrid grid_of(const LinearCall& call, int64_t num_tokens, int num_threads);

}  // namespace octavo::kernels
