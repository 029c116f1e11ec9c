#include "kernels/linear/gated_linear.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/linear/linear_call.h"
#include "kernels/silu_and_mul/silu_and_mul.h"

namespace octavo::kernels {
namespace {

/// Elements of gate, and of up, that are computed before they are prepared, if a row of
/// `column_unit` leaves the choice: 32 KiB each.
constexpr int64_t kPieceElements = 8 << 10;

/// Elements that pass through SiLU and then into rows of the next product: they stay in L1 between,
/// and are about as many blocks as are quantised at a time.
constexpr int64_t kFinishElements = 1024;

/// A multiple of the tiles' widths and of a block.
int64_t column_unit(const PackedMatrix& weight) {
  return block_elements(weight.format()) > 1 ? 32 : 96;
}

/// The same for what one row's tasks begin with: four panels of floats, or the four blocks that are
/// quantised together.
int64_t row_unit(const PackedMatrix& weight) {
  return block_elements(weight.format()) > 1 ? 128 : 64;
}

/// Of many rows one block: gate and up stay in L1 until they are prepared.
int64_t columns_at_once(int64_t num_rows, int64_t unit) {
  if (unit == kQuantBlock && num_rows >= kQuantBlock) return unit;
  return std::max<int64_t>(kPieceElements / num_rows / unit, 1) * unit;
}

size_t piece_bytes(int64_t num_rows, int64_t unit) {
  return static_cast<size_t>(std::max(kPieceElements, num_rows * unit)) * sizeof(float);
}

/// Memory of one thread: gate, up, and the call's own.
size_t thread_bytes(const WeightRows& gate, const WeightRows& up, int64_t num_rows,
                    int64_t num_tokens) {
  return 2 * piece_bytes(num_rows, column_unit(*gate.matrix)) +
         round_up_64(std::max(linear_scratch_bytes(*gate.matrix, num_tokens),
                              linear_scratch_bytes(*up.matrix, num_tokens)));
}

bool wants_same_x(const WeightRows& gate, const WeightRows& up) {
  return gate.matrix->format() == up.matrix->format() &&
         gate.matrix->arithmetic() == up.matrix->arithmetic() &&
         gate.matrix->col_order() == up.matrix->col_order();
}

/// One of the two products.
struct Half {
  LinearCall call;
  LinearRun run;
};

Half half_of(const KernelContext& ctx, const WeightRows& rows, int64_t size, const InputRows& x) {
  Half half{call_of(*rows.matrix, rows.first_row, size),
            run_of(current_linear_kernels(), *rows.matrix)};
  half.call.bias = rows.bias;
  set_rows(ctx, half.call, x, *rows.matrix);
  return half;
}

/// Where a finished piece goes.
struct Target {
  const PackedMatrix& next;
  std::byte* out;
  LinearPrepare prepare;  // nullptr: f32
  int64_t unit;           // of columns

  /// `num_rows` rows of `num_cols` columns from (row, column) on; `gate` is overwritten.
  void finish(float* gate, const float* up, int64_t row, int64_t num_rows, int64_t column,
              int64_t num_cols) const {
    const size_t row_bytes = prepared_row_bytes(next);
    const size_t offset = prepared_bytes(next, column);
    const int64_t most = std::max<int64_t>(kFinishElements / num_cols, 1);
    for (int64_t r = 0; r < num_rows; r += most) {
      const int64_t count = std::min(most, num_rows - r);
      float* const x = gate + r * num_cols;
      std::byte* const to = out + static_cast<size_t>(row + r) * row_bytes + offset;
      silu_and_mul(x, x, up + r * num_cols, count * num_cols);
      if (prepare != nullptr) {
        prepare({to, row_bytes, x, num_cols, count, num_cols});
      } else {
        copy_rows(to, row_bytes, x, count, num_cols);
      }
    }
  }

  static void copy_rows(std::byte* to, size_t row_bytes, const float* x, int64_t num_rows,
                        int64_t num_cols) {
    for (int64_t r = 0; r < num_rows; ++r, to += row_bytes, x += num_cols) {
      std::copy_n(x, num_cols, reinterpret_cast<float*>(to));
    }
  }
};

/// Rows [row_begin, row_end) of columns [column, column_end).
void run_task(const Half& gate, const Half& up, const Target& target, LinearRange range,
              int64_t column, int64_t column_end, float* gate_piece, float* up_piece) {
  const int64_t num_rows = range.row_end - range.row_begin;
  const int64_t step = columns_at_once(num_rows, target.unit);
  for (; column < column_end; column += step) {
    const int64_t num_cols = std::min(step, column_end - column);
    range.panel_begin = column / kPanelRows;
    range.panel_end = (column + num_cols + kPanelRows - 1) / kPanelRows;
    for (const auto& [half, piece] : {std::pair(&gate, gate_piece), std::pair(&up, up_piece)}) {
      // After these panels of gate come the same ones of up, then the next ones of gate, of the
      // next task if need be.
      const bool is_gate = half == &gate;
      const LinearCall& next = is_gate ? up.call : gate.call;
      const int64_t next_panel = is_gate ? range.panel_begin : range.panel_end;
      range.next_weight = next.weight + static_cast<size_t>(next_panel) * next.panel_bytes;
      range.next_panels = (next.num_rows + kPanelRows - 1) / kPanelRows - next_panel;
      LinearCall call = half->call;
      call.out = piece;
      call.out_stride = num_cols;
      call.out_row = range.row_begin;
      call.out_column = column;
      half->run(call, range);
    }
    target.finish(gate_piece, up_piece, range.row_begin, num_rows, column, num_cols);
  }
}

}  // namespace

void gated_linear(const KernelContext& ctx, std::byte* out, const float* x, int64_t x_stride,
                  int64_t num_tokens, const WeightRows& gate, const WeightRows& up,
                  const PackedMatrix& next, const RowNorm* norm) {
  if (num_tokens <= 0) return;
  CHECK(next.col_order().empty());
  const InputRows rows{x, x_stride, num_tokens, norm};
  const int64_t size = next.num_cols();
  const size_t mark = ctx.workspace.mark();
  Half gate_half = half_of(ctx, gate, size, rows);
  Half up_half{call_of(*up.matrix, up.first_row, size), gate_half.run};
  if (wants_same_x(gate, up)) {
    up_half.call.x = gate_half.call.x;
    up_half.call.x_row_bytes = gate_half.call.x_row_bytes;
    up_half.call.taken = gate_half.call.taken;
    up_half.call.bias = up.bias;
  } else {
    up_half = half_of(ctx, up, size, rows);
  }
  const int64_t unit = column_unit(*gate.matrix);
  const Target target{next, out, prepare_of(current_linear_kernels(), next), unit};

  const int64_t chunk_rows = std::min(
      num_tokens, rows_of_task(std::max(gate_half.call.x_row_bytes, up_half.call.x_row_bytes)));
  const int64_t row_chunks = (num_tokens + chunk_rows - 1) / chunk_rows;
  const int num_threads = ctx.pool.num_threads();
  const size_t memory_bytes = thread_bytes(gate, up, chunk_rows, num_tokens);
  std::byte* const memory = ctx.workspace.take(memory_bytes * static_cast<size_t>(num_threads));
  const size_t piece_size = piece_bytes(chunk_rows, unit);
  for (const auto& [half, weight] :
       {std::pair(&gate_half, gate.matrix), std::pair(&up_half, up.matrix)}) {
    set_scratch(half->call, memory + 2 * piece_size, memory_bytes, *weight, num_tokens);
  }
  const int64_t task_unit = num_tokens == 1 ? row_unit(*gate.matrix) : unit;
  const int64_t units = (size + task_unit - 1) / task_unit;
  const int64_t panel_bytes =
      static_cast<int64_t>(gate_half.call.panel_bytes + up_half.call.panel_bytes);
  const int64_t wanted =
      num_weight_tasks(num_tokens, row_chunks, size / kPanelRows * panel_bytes, num_threads);
  const int64_t column_chunks = num_threads == 1 ? 1 : std::clamp<int64_t>(wanted, 1, units);
  const auto column_of = [&](int64_t chunk) {
    return std::min(units * chunk / column_chunks * task_unit, size);
  };
  ctx.pool.read_next(up.matrix->next());
  ctx.pool.parallel_for(row_chunks * column_chunks, 1, [&](int64_t begin, int64_t end, int thread) {
    std::byte* const mine = memory + static_cast<size_t>(thread) * memory_bytes;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t chunk = task / column_chunks;
      const int64_t piece = task % column_chunks;
      run_task(
          gate_half, up_half, target,
          {num_tokens * chunk / row_chunks, num_tokens * (chunk + 1) / row_chunks, 0, 0, thread},
          column_of(piece), column_of(piece + 1), reinterpret_cast<float*>(mine),
          reinterpret_cast<float*>(mine + piece_size));
    }
  });
  ctx.workspace.reset(mark);
}

size_t gated_linear_workspace_bytes(const WeightRows& gate, const WeightRows& up,
                                    int64_t num_tokens, int num_threads) {
  if (num_tokens <= 0) return 0;
  size_t bytes = rows_bytes(*gate.matrix, num_tokens);
  if (!wants_same_x(gate, up)) bytes += rows_bytes(*up.matrix, num_tokens);
  const int64_t most_rows = std::min(num_tokens, rows_of_task(0));
  return bytes + thread_bytes(gate, up, most_rows, num_tokens) * static_cast<size_t>(num_threads);
}

}  // namespace octavo::kernels
