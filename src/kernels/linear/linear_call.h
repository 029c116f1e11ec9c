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

/// The call's scratch for `num_tokens` rows, of one thread: panels, unpacked, and weights of
/// columns that were taken out.
size_t linear_scratch_bytes(const PackedMatrix& weight, int64_t num_tokens);
/// Tells the call where its scratch is: the threads' pieces begin `stride` bytes apart, a multiple
/// of 64.
void set_scratch(LinearCall& call, std::byte* scratch, size_t stride, const PackedMatrix& weight,
                 int64_t num_tokens);

/// Rows of x as a caller has them.
struct InputRows {
  const float* data = nullptr;
  int64_t stride = 0;
  int64_t count = 0;
  const RowNorm* norm = nullptr;
};

/// Puts x, row_bytes and all into `call` as the kernels read them for `weight`: as they are, or
/// prepared on the pool in memory of the workspace. Of rows with a norm that are quantised, the
/// largest number may be taken out (taken_out.h).
void set_rows(const KernelContext& ctx, LinearCall& call, const InputRows& x,
              const PackedMatrix& weight);
/// What set_rows takes from the workspace at most.
size_t rows_bytes(const PackedMatrix& weight, int64_t num_tokens);

/// Rows a task takes at most: prepared, they stay in L2 while all the task's panels pass by. Fewer
/// rows mean that panels are unpacked more often.
int64_t rows_of_task(size_t x_row_bytes);

/// Below so many bytes of packed weight times rows a fork costs more than it saves (about 1 us).
inline constexpr int64_t kForkBytes = 24 << 10;
/// Tasks a thread, at most: some more than one, so that a thread which lost its core for a while
/// delays little.
inline int64_t tasks_per_thread(int64_t num_tokens) { return num_tokens == 1 ? 32 : 8; }
/// Bytes of weights that one row's task reads, if that leaves one to each thread: where a task
/// ends, the stream from memory falters. One task a thread instead of four took 2 % off the layers
/// of SmolLM2 in Q4_0 and BF16.
inline constexpr int64_t kTaskBytes = 512 << 10;
/// Into how many tasks `row_chunks` chunks of rows times `weight_bytes` are divided, at most, by
/// rows of the weight; the threads' shares are equal.
inline int64_t num_weight_tasks(int64_t num_tokens, int64_t row_chunks, int64_t weight_bytes,
                                int num_threads) {
  const int64_t most = tasks_per_thread(num_tokens) * num_threads / row_chunks;
  if (num_tokens > 1) return most > 1 ? most : 1;
  const int64_t each = weight_bytes / kTaskBytes / num_threads;
  const int64_t wanted = (each > 1 ? each : 1) * num_threads;
  return wanted < most ? wanted : most;
}

/// How a product is shared out: in tasks of some rows by some panels.
struct TaskGrid {
  int64_t num_tokens, num_panels;  // of the product
  int64_t row_chunks, panel_chunks;
  int64_t unit;  // of panels: what ends inside one costs a tile of its own
  bool forks;    // worth more than one thread

  int64_t num_tasks() const { return row_chunks * panel_chunks; }
  /// For parallel_for.
  int64_t grain() const { return forks ? 1 : num_tasks(); }
  int64_t most_rows() const { return (num_tokens + row_chunks - 1) / row_chunks; }
  /// First panel of a chunk.
  int64_t panel_of(int64_t chunk) const {
    const int64_t units = (num_panels + unit - 1) / unit;
    const int64_t panel = units * chunk / panel_chunks * unit;
    return panel < num_panels ? panel : num_panels;
  }
  LinearRange range(const LinearCall& call, int64_t task, int thread_index) const {
    const int64_t rows = task / panel_chunks;
    const int64_t chunk = task % panel_chunks;
    const int64_t end = panel_of(chunk + 1);
    return {num_tokens * rows / row_chunks,
            num_tokens * (rows + 1) / row_chunks,
            panel_of(chunk),
            end,
            thread_index,
            call.weight + static_cast<size_t>(end) * call.panel_bytes,
            num_panels - end};
  }
};
/// At most tasks_per_thread(num_tokens) * num_threads chunks of panels.
TaskGrid grid_of(const LinearCall& call, int64_t num_tokens, int num_threads);

}  // namespace octavo::kernels
