#include "kernels/linear/linear_largest.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "kernels/linear/linear_call.h"

namespace octavo::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Elements of a strip: 128 KiB, which stay in L2 beside the rows of x.
constexpr int64_t kStripElements = 32 << 10;
/// A multiple of every tile's width.
constexpr int64_t kStripUnit = int64_t{6} * kPanelRows;

int64_t strip_columns(int64_t num_rows) {
  return std::max<int64_t>(kStripElements / num_rows / kStripUnit, 1) * kStripUnit;
}

size_t strip_bytes(int64_t num_rows) {
  return static_cast<size_t>(std::max(kStripElements, num_rows * kStripUnit)) * sizeof(float);
}

constexpr LogitsScan kNothing{.max = -kInfinity, .argmax = 0, .is_valid = true};

/// Adds what `scan_logits` says of a piece that begins at `first_id`, behind all pieces before.
void add_piece(LogitsScan& total, LogitsScan piece, std::span<const float> values,
               int64_t first_id) {
  if (!piece.is_valid) {
    // A piece may be -inf altogether, as long as the row is not.
    const bool is_empty = piece.max == -kInfinity && std::ranges::all_of(values, [](float value) {
                            return value == -kInfinity;
                          });
    total.is_valid = total.is_valid && is_empty;
    return;
  }
  if (piece.max > total.max) {
    total.max = piece.max;
    total.argmax = static_cast<int32_t>(first_id) + piece.argmax;
  }
}

/// What tasks share.
struct Product {
  LinearCall call;
  LinearRun run;
  float factor;
  std::span<float* const> whole;  // of all rows
};

/// The rows and panels of one task, strip by strip. `found` gets the rows' largest.
void run_task(const Product& product, const LinearRange& task, float* strip, LogitsScan* found) {
  const int64_t num_rows = task.row_end - task.row_begin;
  std::fill_n(found, num_rows, kNothing);
  const int64_t end = std::min(task.panel_end * kPanelRows, product.call.num_rows);
  const int64_t step = strip_columns(num_rows);
  for (int64_t column = task.panel_begin * kPanelRows; column < end; column += step) {
    const int64_t width = std::min(step, end - column);
    LinearCall call = product.call;
    call.out = strip;
    call.out_stride = width;
    call.out_row = task.row_begin;
    call.out_column = column;
    LinearRange range = task;
    range.panel_begin = column / kPanelRows;
    range.panel_end = (column + width + kPanelRows - 1) / kPanelRows;
    range.next_weight = call.weight + static_cast<size_t>(range.panel_end) * call.panel_bytes;
    range.next_panels = task.panel_end + task.next_panels - range.panel_end;
    product.run(call, range);
    for (int64_t r = 0; r < num_rows; ++r) {
      const std::span<float> values(strip + r * width, static_cast<size_t>(width));
      if (product.factor != 1.0f) {
        for (float& value : values) value *= product.factor;
      }
      float* const whole = product.whole[static_cast<size_t>(task.row_begin + r)];
      if (whole != nullptr) {
        std::ranges::copy(values, whole + column);
      } else {
        add_piece(found[r], scan_logits(values), values, column);
      }
    }
  }
}

/// Joins what tasks of the same rows found in ascending ranges of columns.
LogitsScan join(const LogitsScan* found, int64_t num_pieces, int64_t stride) {
  LogitsScan total = kNothing;
  for (int64_t i = 0; i < num_pieces; ++i) {
    const LogitsScan& piece = found[i * stride];
    total.is_valid = total.is_valid && piece.is_valid;
    if (piece.max > total.max) {
      total.max = piece.max;
      total.argmax = piece.argmax;
    }
  }
  total.is_valid = total.is_valid && total.max > -kInfinity;
  if (!total.is_valid) total.argmax = 0;
  return total;
}

/// Memory of one thread: a strip, and the call's own.
size_t thread_bytes(const PackedMatrix& weight, int64_t chunk_rows, int64_t num_tokens) {
  return strip_bytes(chunk_rows) + round_up_64(linear_scratch_bytes(weight, num_tokens));
}

}  // namespace

void linear_largest(const KernelContext& ctx, const LargestOutput& out, const float* x,
                    int64_t x_stride, int64_t num_tokens, const PackedMatrix& weight, float factor,
                    const RowNorm* norm) {
  if (num_tokens <= 0) return;
  CHECK_EQ(static_cast<int64_t>(out.whole.size()), num_tokens);
  CHECK_EQ(static_cast<int64_t>(out.largest.size()), num_tokens);
  const size_t mark = ctx.workspace.mark();
  Product product{call_of(weight, 0, weight.num_rows()), run_of(current_linear_kernels(), weight),
                  factor, out.whole};
  set_rows(ctx, product.call, {x, x_stride, num_tokens, norm}, weight);
  const int num_threads = ctx.pool.num_threads();
  const TaskGrid grid = grid_of(product.call, num_tokens, num_threads);
  const size_t memory_bytes = thread_bytes(weight, grid.most_rows(), num_tokens);
  std::byte* const memory = ctx.workspace.take(memory_bytes * static_cast<size_t>(num_threads));
  set_scratch(product.call, memory + strip_bytes(grid.most_rows()), memory_bytes, weight,
              num_tokens);
  auto* const found = reinterpret_cast<LogitsScan*>(ctx.workspace.take(
      round_up_64(sizeof(LogitsScan) * static_cast<size_t>(grid.panel_chunks * num_tokens))));
  ctx.pool.read_next(weight.next());
  ctx.pool.parallel_for(
      grid.num_tasks(), grid.grain(), [&](int64_t begin, int64_t end, int thread) {
        auto* const strip =
            reinterpret_cast<float*>(memory + static_cast<size_t>(thread) * memory_bytes);
        for (int64_t task = begin; task < end; ++task) {
          const LinearRange range = grid.range(product.call, task, thread);
          run_task(product, range, strip,
                   found + task % grid.panel_chunks * num_tokens + range.row_begin);
        }
      });
  for (int64_t t = 0; t < num_tokens; ++t) {
    if (out.whole[static_cast<size_t>(t)] != nullptr) continue;
    out.largest[static_cast<size_t>(t)] = join(found + t, grid.panel_chunks, num_tokens);
  }
  ctx.workspace.reset(mark);
}

size_t linear_largest_workspace_bytes(const PackedMatrix& weight, int64_t num_tokens,
                                      int num_threads) {
  if (num_tokens <= 0) return 0;
  const int64_t most_rows = std::min(num_tokens, rows_of_task(0));
  const int64_t most_chunks = tasks_per_thread(num_tokens) * num_threads;
  return rows_bytes(weight, num_tokens) +
         thread_bytes(weight, most_rows, num_tokens) * static_cast<size_t>(num_threads) +
         round_up_64(sizeof(LogitsScan) * static_cast<size_t>(most_chunks * num_tokens));
}

}  // namespace octavo::kernels
