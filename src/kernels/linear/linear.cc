#include "kernels/linear/linear.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/dispatch.h"
#include "kernels/linear/linear_call.h"
#include "kernels/linear/linear_params.h"
#include "kernels/linear/taken_out.h"
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
  const size_t scratch_bytes = linear_scratch_bytes(weight, num_tokens);
  if (scratch_bytes > 0) {
    set_scratch(call,
                ctx.workspace.take(scratch_bytes * static_cast<size_t>(ctx.pool.num_threads())),
                scratch_bytes, weight, num_tokens);
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

/// Is x quantised?
bool takes_bytes(const PackedMatrix& weight) {
  return weight.arithmetic() == Arithmetic::kNative && unpacks_from(weight.format()) > 0;
}

size_t unpacking_bytes(const PackedMatrix& weight, int64_t num_tokens) {
  if (!takes_bytes(weight) || num_tokens < unpacks_from(weight.format())) return 0;
  return static_cast<size_t>(weight.num_cols() / kQuantBlock) * kUnpackedBlockBytes * kUnpackPanels;
}

/// Columns that may be taken out of so many rows, and the unused place before them.
size_t most_taken_columns(const PackedMatrix& weight, int64_t num_tokens) {
  return static_cast<size_t>(std::min(num_tokens, weight.num_cols())) + 1;
}

}  // namespace

size_t linear_scratch_bytes(const PackedMatrix& weight, int64_t num_tokens) {
  if (!takes_bytes(weight) || num_tokens <= 0) return 0;
  return unpacking_bytes(weight, num_tokens) +
         most_taken_columns(weight, num_tokens) * kTakenStride * sizeof(float);
}

void set_scratch(LinearCall& call, std::byte* scratch, size_t stride, const PackedMatrix& weight,
                 int64_t num_tokens) {
  call.scratch = scratch;
  call.scratch_bytes = stride;
  call.taken_weights = reinterpret_cast<float*>(scratch + unpacking_bytes(weight, num_tokens));
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

/// What happens to rows before they are multiplied.
struct Preparation {
  LinearPrepare prepare;  // nullptr: f32
  const PackedMatrix& weight;
  const RowNorm* norm;
  TakenOut* taken;  // of each row, with a column or -1 as the slot; nullptr: not asked for
};

/// Columns [begin, begin + count) of a row, in the weight's order, with the norm.
void norm_columns(float* to, const float* x, const Preparation& as, float factor, int64_t begin,
                  int64_t count) {
  alignas(64) float gathered_norm[kPieceElements];
  const float* from = x + begin;
  const float* factors = as.norm == nullptr ? nullptr : as.norm->weight + begin;
  if (!as.weight.col_order().empty()) {
    const int32_t* const order = as.weight.col_order().data() + begin;
    gather(to, x, order, count);
    from = to;
    if (factors != nullptr) {
      gather(gathered_norm, as.norm->weight, order, count);
      factors = gathered_norm;
    }
  }
  if (factors != nullptr) {
    current_rms_norm_kernels().scale(to, from, factors, count, factor);
  } else if (from != to) {
    std::copy_n(from, count, to);
  }
}

/// Blocks that are quantised anew at a time: one alone costs as much as four.
constexpr int64_t kBlocksAnew = 4;

/// Takes out of prepared rows what is too large; block(row, i) gives the numbers of a block.
template <class Block>
void take_out_of(std::byte* rows, size_t row_bytes, int64_t count, const Preparation& as,
                 TakenOut* taken, const Block& block) {
  const size_t record_bytes = prepared_bytes(as.weight, kQuantBlock);
  const int64_t num_blocks = as.weight.num_cols() / kQuantBlock;
  alignas(64) float rest[kBlocksAnew * kQuantBlock] = {};
  std::byte records[kBlocksAnew * sizeof(HalvesActivationBlock)] = {};
  std::byte* targets[kBlocksAnew] = {};
  int64_t waiting = 0;
  for (int64_t row = 0; row < count; ++row) {
    std::byte* const of_row = rows + static_cast<size_t>(row) * row_bytes;
    const int64_t i = block_with_too_much(of_row, record_bytes, num_blocks);
    taken[row] = {.slot = -1};
    if (i >= 0) {
      taken[row] = take_out_largest(rest + waiting * kQuantBlock, block(row, i));
      taken[row].slot += static_cast<int32_t>(i * kQuantBlock);
      targets[waiting++] = of_row + static_cast<size_t>(i) * record_bytes;
    }
    if (waiting == 0 || (waiting < kBlocksAnew && row + 1 < count)) continue;
    as.prepare({records, 0, rest, 0, 1, kBlocksAnew * kQuantBlock});
    for (int64_t j = 0; j < waiting; ++j) {
      std::copy_n(records + static_cast<size_t>(j) * record_bytes, record_bytes, targets[j]);
    }
    waiting = 0;
  }
}

/// A row piece by piece.
void prepare_row(std::byte* out, const float* x, const Preparation& as, TakenOut* taken) {
  const int64_t num_cols = as.weight.num_cols();
  const float factor =
      as.norm == nullptr ? 1.0f : current_rms_norm_kernels().factor(x, num_cols, as.norm->eps);
  alignas(64) float piece[kPieceElements];
  for (int64_t i = 0; i < num_cols; i += kPieceElements) {
    const int64_t count = std::min(kPieceElements, num_cols - i);
    norm_columns(as.prepare == nullptr ? reinterpret_cast<float*>(out) + i : piece, x, as, factor,
                 i, count);
    if (as.prepare != nullptr) {
      as.prepare({out + prepared_bytes(as.weight, i), 0, piece, 0, 1, count});
    }
  }
  if (as.prepare == nullptr || taken == nullptr) return;
  take_out_of(out, 0, 1, as, taken, [&](int64_t, int64_t block) {
    norm_columns(piece, x, as, factor, block * kQuantBlock, kQuantBlock);
    return piece;
  });
}

/// Short rows, several at a time: many blocks cost less each.
void norm_and_prepare(std::byte* out, const InputRows& x, const Preparation& as, size_t row_bytes) {
  const RmsNormKernels& kernels = current_rms_norm_kernels();
  const int64_t num_cols = as.weight.num_cols();
  alignas(64) float piece[kPieceElements];
  const int64_t most = kPieceElements / num_cols;
  for (int64_t row = 0; row < x.count; row += most) {
    const int64_t count = std::min(most, x.count - row);
    std::byte* const to = out + static_cast<size_t>(row) * row_bytes;
    for (int64_t i = 0; i < count; ++i) {
      const float* const from = x.data + (row + i) * x.stride;
      kernels.scale(piece + i * num_cols, from, x.norm->weight, num_cols,
                    kernels.factor(from, num_cols, x.norm->eps));
    }
    as.prepare({to, row_bytes, piece, num_cols, count, num_cols});
    if (as.taken != nullptr) {
      take_out_of(to, row_bytes, count, as, as.taken + row, [&](int64_t i, int64_t block) {
        return piece + i * num_cols + block * kQuantBlock;
      });
    }
  }
}

void prepare_rows(std::byte* out, const InputRows& x, const Preparation& as) {
  const int64_t num_cols = as.weight.num_cols();
  const size_t row_bytes = prepared_row_bytes(as.weight);
  const bool in_order = as.weight.col_order().empty();
  if (in_order && x.norm == nullptr) {
    return as.prepare({out, row_bytes, x.data, x.stride, x.count, num_cols});
  }
  if (in_order && as.prepare != nullptr && 2 * num_cols <= kPieceElements) {
    return norm_and_prepare(out, x, as, row_bytes);
  }
  for (int64_t row = 0; row < x.count; ++row) {
    prepare_row(out + static_cast<size_t>(row) * row_bytes, x.data + row * x.stride, as,
                as.taken == nullptr ? nullptr : as.taken + row);
  }
}

size_t prepared_rows_bytes(const PackedMatrix& weight, int64_t num_tokens) {
  return round_up_64(prepared_row_bytes(weight) * static_cast<size_t>(num_tokens));
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
  TakenOut* const taken =
      prepare != nullptr && x.norm != nullptr && takes_bytes(weight)
          ? reinterpret_cast<TakenOut*>(out + prepared_rows_bytes(weight, x.count))
          : nullptr;
  const int64_t num_tasks = num_prepare_tasks(x.count, num_cols, ctx.pool.num_threads());
  ctx.pool.parallel_for(num_tasks, 1, [&](int64_t task, int64_t task_end, int) {
    const int64_t begin = x.count * task / num_tasks;
    const int64_t end = x.count * task_end / num_tasks;
    prepare_rows(out + static_cast<size_t>(begin) * row_bytes,
                 {x.data + begin * x.stride, x.stride, end - begin, x.norm},
                 {prepare, weight, x.norm, taken == nullptr ? nullptr : taken + begin});
  });
  call.x = out;
  call.x_row_bytes = row_bytes;
  if (taken == nullptr) return;
  auto* const columns = reinterpret_cast<int32_t*>(taken + x.count);
  int32_t* const places = columns + most_taken_columns(weight, x.count);
  call.taken = number_columns(taken, x.count, columns, places, num_cols);
}

size_t rows_bytes(const PackedMatrix& weight, int64_t num_tokens) {
  if (num_tokens <= 0) return 0;
  const size_t bytes = prepared_rows_bytes(weight, num_tokens);
  if (!takes_bytes(weight)) return bytes;
  return bytes + round_up_64(sizeof(TakenOut) * static_cast<size_t>(num_tokens) +
                             sizeof(int32_t) * (most_taken_columns(weight, num_tokens) +
                                                static_cast<size_t>(weight.num_cols())));
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
