#include "kernels/linear/linear.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/dispatch.h"
#include "kernels/linear/linear_call.h"
#include "kernels/linear/linear_params.h"
#include "kernels/rms_norm/rms_norm_params.h"
#include "kernels/variants.h"

namespace octavo::kernels {
namespace {

/// `row` with what `over` has in its place.
LinearKernels overlaid(LinearKernels row, const LinearKernels& over) {
  for (size_t i = 0; i < kNumWeightFormats; ++i) {
    if (over.native[i] != nullptr) row.native[i] = over.native[i];
    if (over.f32[i] != nullptr) row.f32[i] = over.f32[i];
    if (over.prepare[i] != nullptr) row.prepare[i] = over.prepare[i];
  }
  if (over.bf16_bytes != 0) row.bf16_bytes = over.bf16_bytes;
  return row;
}

const LinearKernels kAvx2Vnni = overlaid(avx2::kLinear, avx2_vnni::kLinear);
const LinearKernels kAvx512 = overlaid(avx512_core::kLinear, avx512::kLinear);
const LinearKernels kAvx512Bf16 = overlaid(kAvx512, avx512_bf16::kLinear);

constexpr auto kLinear = std::to_array<Variant<const LinearKernels*>>({
    {Isa::kAvx512, &kAvx512Bf16, Needs::kFastBf16Dot},
    {Isa::kAvx512, &kAvx512},
    {Isa::kAvx512Core, &avx512_core::kLinear},
    {Isa::kAvx2Vnni, &kAvx2Vnni},
    {Isa::kAvx2, &avx2::kLinear},
    {Isa::kGeneric, &generic::kLinear},
});

static_assert(kPanelRows == kRowAlignment);

/// Elements of x from which preparing the rows is shared out.
constexpr int64_t kForkElements = 16 << 10;
constexpr size_t kRowChunkBytes = size_t{256} << 10;
constexpr int64_t kMaxRowChunk = 512;
/// Rows of more bytes make larger chunks, so that what is unpacked or widened serves more of them:
/// as many rows as these, within half of a usual L2.
constexpr int64_t kLeastRowChunk = 64, kWantedRowChunk = 128;
constexpr size_t kLargeRowChunkBytes = size_t{1} << 20;

void run_shared(const KernelContext& ctx, LinearRun run, const LinearCall& call,
                int64_t num_tokens) {
  const TaskGrid grid = grid_of(call, num_tokens, ctx.pool.num_threads());
  ctx.pool.parallel_for(grid.num_tasks(), grid.grain(),
                        [&](int64_t begin, int64_t end, int thread) {
                          for (int64_t task = begin; task < end; ++task) {
                            run(call, grid.range(call, task, thread));
                          }
                        });
}

/// The product of x as the call holds it.
void multiply(const KernelContext& ctx, LinearCall call, int64_t num_tokens,
              const PackedMatrix& weight) {
  const size_t mark = ctx.workspace.mark();
  call.scratch_bytes = linear_scratch_bytes(weight, num_tokens);
  if (call.scratch_bytes > 0) {
    call.scratch =
        ctx.workspace.take(call.scratch_bytes * static_cast<size_t>(ctx.pool.num_threads()));
  }
  if (weight.next().num_parts > 0) ctx.pool.read_next(weight.next());
  run_shared(ctx, run_of(current_linear_kernels(), weight), call, num_tokens);
  ctx.workspace.reset(mark);
}

}  // namespace

const LinearKernels& current_linear_kernels() { return *pick(kLinear); }

TaskGrid grid_of(const LinearCall& call, int64_t num_tokens, int num_threads) {
  const int64_t num_panels = (call.num_rows + kPanelRows - 1) / kPanelRows;
  const int64_t work = num_panels * static_cast<int64_t>(call.panel_bytes) * num_tokens;
  const int64_t chunk_rows = rows_of_task(call.x_row_bytes);
  TaskGrid grid{.num_tokens = num_tokens,
                .num_panels = num_panels,
                .row_chunks = (num_tokens + chunk_rows - 1) / chunk_rows,
                .panel_chunks = 1,
                .unit = num_tokens == 1 ? 2 : 6,  // a multiple of every tile's width
                .forks = num_threads > 1 && work >= kForkBytes};
  if (!grid.forks) return grid;
  const int64_t units = (num_panels + grid.unit - 1) / grid.unit;
  const int64_t wanted =
      num_weight_tasks(num_tokens, grid.row_chunks,
                       num_panels * static_cast<int64_t>(call.panel_bytes), num_threads);
  grid.panel_chunks = std::clamp<int64_t>(wanted, 1, units);
  return grid;
}

LinearRun run_of(const LinearKernels& kernels, const PackedMatrix& weight) {
  const auto index = static_cast<size_t>(weight.format());
  return weight.arithmetic() == Arithmetic::kNative ? kernels.native[index] : kernels.f32[index];
}

LinearPrepare prepare_of(const LinearKernels& kernels, const PackedMatrix& weight) {
  if (weight.arithmetic() != Arithmetic::kNative) return nullptr;
  return kernels.prepare[static_cast<size_t>(weight.format())];
}

size_t prepared_bytes(const PackedMatrix& weight, int64_t num_cols) {
  const auto cols = static_cast<size_t>(num_cols);
  if (weight.arithmetic() == Arithmetic::kF32) return cols * sizeof(float);
  switch (weight.format()) {
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kF8G32:
    case WeightFormat::kF8G64:
    case WeightFormat::kF8G128:
      return cols * sizeof(float);
    case WeightFormat::kBF16:
      return (cols + 1) / 2 * 2 * static_cast<size_t>(current_linear_kernels().bf16_bytes);
    case WeightFormat::kQ6_K:
      return cols / kQuantBlock * sizeof(HalvesActivationBlock);
    default:
      return cols / kQuantBlock * sizeof(ActivationBlock);
  }
}

size_t prepared_row_bytes(const PackedMatrix& weight) {
  return prepared_bytes(weight, weight.num_cols());
}

device::Reading PackedMatrix::reading(int64_t num_rows) const {
  const LinearCall call = call_of(*this, 0, num_rows);
  return {call.weight, call.panel_bytes, (num_rows + kPanelRows - 1) / kPanelRows};
}

LinearCall call_of(const PackedMatrix& weight, int64_t first_row, int64_t num_rows) {
  CHECK_EQ(first_row % kPanelRows, 0);
  CHECK(first_row >= 0 && num_rows >= 0 && first_row + num_rows <= weight.num_rows());
  const int64_t num_panels = (weight.num_rows() + kPanelRows - 1) / kPanelRows;
  LinearCall call;
  call.panel_bytes = weight.size_bytes() / static_cast<size_t>(std::max<int64_t>(num_panels, 1));
  call.weight = weight.data() + static_cast<size_t>(first_row / kPanelRows) * call.panel_bytes;
  call.num_rows = num_rows;
  call.num_cols = weight.num_cols();
  call.group_blocks = std::max<int64_t>(block_elements(weight.format()) / kQuantBlock, 1);
  return call;
}

namespace {

/// Rows from which a variant may unpack panels of this format (block_formats.h); 0: never.
int64_t unpacks_from(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ8_0:
    case WeightFormat::kQ4_0:
    case WeightFormat::kQ4_1:
    case WeightFormat::kI4G32:
    case WeightFormat::kI4G64:
    case WeightFormat::kI4G128:
    case WeightFormat::kI8G32:
    case WeightFormat::kI8G64:
    case WeightFormat::kI8G128:
      return kUnpackRows;
    case WeightFormat::kQ5_0:
    case WeightFormat::kQ5_1:
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K:
    case WeightFormat::kQ6_K:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

size_t linear_scratch_bytes(const PackedMatrix& weight, int64_t num_tokens) {
  const int64_t from = unpacks_from(weight.format());
  if (weight.arithmetic() != Arithmetic::kNative || from == 0 || num_tokens < from) return 0;
  return static_cast<size_t>(weight.num_cols() / kQuantBlock) * kUnpackedBlockBytes * kUnpackPanels;
}

int64_t rows_of_task(size_t x_row_bytes) {
  const auto rows_in = [&](size_t bytes) {
    return static_cast<int64_t>(bytes / std::max<size_t>(x_row_bytes, 1)) / 32 * 32;
  };
  const int64_t least =
      std::clamp<int64_t>(rows_in(kLargeRowChunkBytes), kLeastRowChunk, kWantedRowChunk);
  return std::clamp<int64_t>(rows_in(kRowChunkBytes), least, kMaxRowChunk);
}

namespace {

/// Elements that are gathered and normed at a time before they are prepared: they stay in L1.
constexpr int64_t kPieceElements = 2048;
static_assert(kPieceElements % kSuperBlock == 0);

void gather(float* out, const float* x, const int32_t* order, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = x[order[i]];
}

/// A row piece by piece: columns in the weight's order, then the norm, then `prepare` (nullptr:
/// f32).
void prepare_row(std::byte* out, const float* x, const RowNorm* norm, LinearPrepare prepare,
                 const PackedMatrix& weight) {
  const int64_t num_cols = weight.num_cols();
  const int32_t* const order = weight.col_order().empty() ? nullptr : weight.col_order().data();
  const RmsNormKernels& kernels = current_rms_norm_kernels();
  const float factor = norm == nullptr ? 1.0f : kernels.factor(x, num_cols, norm->eps);
  alignas(64) float piece[kPieceElements], gathered_norm[kPieceElements];
  for (int64_t i = 0; i < num_cols; i += kPieceElements) {
    const int64_t count = std::min(kPieceElements, num_cols - i);
    float* const to = prepare == nullptr ? reinterpret_cast<float*>(out) + i : piece;
    const float* from = x + i;
    if (order != nullptr) {
      gather(to, x, order + i, count);
      from = to;
    }
    if (norm != nullptr) {
      const float* factors = norm->weight + i;
      if (order != nullptr) {
        gather(gathered_norm, norm->weight, order + i, count);
        factors = gathered_norm;
      }
      kernels.scale(to, from, factors, count, factor);
    }
    if (prepare != nullptr) prepare({out + prepared_bytes(weight, i), 0, to, 0, 1, count});
  }
}

/// Short rows, several at a time: many blocks cost less each.
void norm_and_prepare(std::byte* out, const InputRows& x, LinearPrepare prepare, int64_t num_cols,
                      size_t row_bytes) {
  const RmsNormKernels& kernels = current_rms_norm_kernels();
  alignas(64) float piece[kPieceElements];
  const int64_t most = kPieceElements / num_cols;
  for (int64_t row = 0; row < x.count; row += most) {
    const int64_t count = std::min(most, x.count - row);
    for (int64_t i = 0; i < count; ++i) {
      const float* const from = x.data + (row + i) * x.stride;
      kernels.scale(piece + i * num_cols, from, x.norm->weight, num_cols,
                    kernels.factor(from, num_cols, x.norm->eps));
    }
    prepare(
        {out + static_cast<size_t>(row) * row_bytes, row_bytes, piece, num_cols, count, num_cols});
  }
}

void prepare_rows(std::byte* out, const InputRows& x, LinearPrepare prepare,
                  const PackedMatrix& weight) {
  const int64_t num_cols = weight.num_cols();
  const size_t row_bytes = prepared_row_bytes(weight);
  const bool in_order = weight.col_order().empty();
  if (in_order && x.norm == nullptr) {
    return prepare({out, row_bytes, x.data, x.stride, x.count, num_cols});
  }
  if (in_order && prepare != nullptr && 2 * num_cols <= kPieceElements) {
    return norm_and_prepare(out, x, prepare, num_cols, row_bytes);
  }
  for (int64_t row = 0; row < x.count; ++row) {
    prepare_row(out + static_cast<size_t>(row) * row_bytes, x.data + row * x.stride, x.norm,
                prepare, weight);
  }
}

/// As many for each thread.
int64_t num_prepare_tasks(int64_t num_rows, int64_t num_cols, int num_threads) {
  const int64_t num_elements = num_rows * num_cols;
  if (num_elements < kForkElements) return 1;
  const int64_t per_thread = num_elements / (kForkElements / 2) / num_threads;
  return std::min(std::clamp<int64_t>(per_thread, 1, tasks_per_thread(num_rows)) * num_threads,
                  num_rows);
}

}  // namespace

void set_rows(const KernelContext& ctx, LinearCall& call, const InputRows& x,
              const PackedMatrix& weight) {
  const LinearPrepare prepare = prepare_of(current_linear_kernels(), weight);
  if (prepare == nullptr && x.norm == nullptr && weight.col_order().empty()) {
    call.x = reinterpret_cast<const std::byte*>(x.data);
    call.x_row_bytes = static_cast<size_t>(x.stride) * sizeof(float);
    return;
  }
  const int64_t num_cols = weight.num_cols();
  const size_t row_bytes = prepared_row_bytes(weight);
  std::byte* const out = ctx.workspace.take(rows_bytes(weight, x.count));
  const int64_t num_tasks = num_prepare_tasks(x.count, num_cols, ctx.pool.num_threads());
  ctx.pool.parallel_for(num_tasks, 1, [&](int64_t task, int64_t task_end, int) {
    const int64_t begin = x.count * task / num_tasks;
    const int64_t end = x.count * task_end / num_tasks;
    prepare_rows(out + static_cast<size_t>(begin) * row_bytes,
                 {x.data + begin * x.stride, x.stride, end - begin, x.norm}, prepare, weight);
  });
  call.x = out;
  call.x_row_bytes = row_bytes;
}

size_t rows_bytes(const PackedMatrix& weight, int64_t num_tokens) {
  const auto count = static_cast<size_t>(std::max<int64_t>(num_tokens, 0));
  return (prepared_row_bytes(weight) * count + 63) / 64 * 64;
}

void linear(const KernelContext& ctx, float* out, int64_t out_stride, const float* x,
            int64_t x_stride, int64_t num_tokens, const PackedMatrix& weight, const float* bias,
            Epilogue epilogue, const RowNorm* norm) {
  if (num_tokens <= 0 || weight.num_rows() == 0) return;
  LinearCall call = call_of(weight, 0, weight.num_rows());
  call.out = out;
  call.out_stride = out_stride;
  call.bias = bias;
  call.add = epilogue == Epilogue::kAdd;
  const size_t mark = ctx.workspace.mark();
  set_rows(ctx, call, {x, x_stride, num_tokens, norm}, weight);
  multiply(ctx, call, num_tokens, weight);
  ctx.workspace.reset(mark);
}

void linear_prepared(const KernelContext& ctx, float* out, int64_t out_stride, const std::byte* x,
                     int64_t num_tokens, const PackedMatrix& weight, const float* bias,
                     Epilogue epilogue) {
  if (num_tokens <= 0 || weight.num_rows() == 0) return;
  CHECK(weight.col_order().empty());
  LinearCall call = call_of(weight, 0, weight.num_rows());
  call.x = x;
  call.x_row_bytes = prepared_row_bytes(weight);
  call.out = out;
  call.out_stride = out_stride;
  call.bias = bias;
  call.add = epilogue == Epilogue::kAdd;
  multiply(ctx, call, num_tokens, weight);
}

size_t linear_workspace_bytes(const PackedMatrix& weight, int64_t num_tokens, int num_threads) {
  return rows_bytes(weight, num_tokens) +
         linear_scratch_bytes(weight, num_tokens) * static_cast<size_t>(num_threads);
}

}  // namespace octavo::kernels
