#include "kernels/linear/linear.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/dispatch.h"
#include "kernels/linear/linear_params.h"
#include "kernels/variants.h"

namespace octavo::kernels {
namespace {

constexpr auto kLinear = std::to_array<Variant<const LinearKernels*>>({
    {Isa::kAvx512, &avx512::kLinearBf16Dot, Needs::kFastBf16Dot},
    {Isa::kAvx512, &avx512::kLinear},
    {Isa::kAvx2, &avx2::kLinear},
    {Isa::kGeneric, &generic::kLinear},
});

/// Below so many bytes of packed weight times rows a fork costs more than it saves (about 1 us).
constexpr int64_t kForkBytes = 24 << 10;
/// Elements of x from which preparing the rows is shared out.
constexpr int64_t kForkElements = 16 << 10;
/// Rows whose activations stay in L2 while all panels of a task pass by: 128 rows of 4,096 bf16 are
/// 1 MiB.
constexpr int64_t kRowChunk = 128;

/// Bytes of one prepared row of x; 0 when x is read as it is.
size_t prepared_row_bytes(WeightFormat format, Arithmetic arithmetic, int64_t num_cols,
                          int bf16_bytes) {
  if (arithmetic == Arithmetic::kF32) return 0;
  const auto cols = static_cast<size_t>(num_cols);
  switch (format) {
    case WeightFormat::kF32:
      return 0;
    case WeightFormat::kF16:
      return cols * sizeof(float);
    case WeightFormat::kBF16:
      return (cols + 1) / 2 * 2 * static_cast<size_t>(bf16_bytes);
    case WeightFormat::kQ6_K:
      return cols / kQuantBlock * sizeof(HalvesActivationBlock);
    default:
      return cols / kQuantBlock * sizeof(ActivationBlock);
  }
}

void prepare_rows(const KernelContext& ctx, LinearPrepare prepare, std::byte* out,
                  size_t out_row_bytes, const float* x, int64_t x_stride, int64_t num_rows,
                  int64_t num_cols) {
  const int64_t grain = std::max<int64_t>(kForkElements / 2 / std::max<int64_t>(num_cols, 1), 1);
  ctx.pool.parallel_for(num_rows, num_rows * num_cols < kForkElements ? num_rows : grain,
                        [&](int64_t begin, int64_t end, int) {
                          for (int64_t row = begin; row < end; ++row) {
                            prepare(out + static_cast<size_t>(row) * out_row_bytes,
                                    x + row * x_stride, num_cols);
                          }
                        });
}

/// Shares the output out in tasks of some rows by some panels.
void run_shared(const KernelContext& ctx, LinearRun run, const LinearCall& call,
                int64_t num_tokens) {
  const int64_t num_panels = (call.num_rows + kPanelRows - 1) / kPanelRows;
  const int64_t work = num_panels * static_cast<int64_t>(call.panel_bytes) * num_tokens;
  const int64_t num_threads = ctx.pool.num_threads();
  if (num_threads == 1 || work < kForkBytes) {
    for (int64_t row = 0; row < num_tokens; row += kRowChunk) {
      run(call, {row, std::min(row + kRowChunk, num_tokens), 0, num_panels});
    }
    return;
  }
  const int64_t row_chunks = (num_tokens + kRowChunk - 1) / kRowChunk;
  // Some tasks more than threads, so that a thread which lost its core for a while delays little.
  const int64_t wanted = std::max<int64_t>((num_tokens == 1 ? 4 : 8) * num_threads / row_chunks, 1);
  const int64_t unit = num_tokens == 1 ? 2 : 6;  // a multiple of every tile's width
  int64_t panels = (num_panels + wanted - 1) / wanted;
  panels = (panels + unit - 1) / unit * unit;
  const int64_t panel_chunks = (num_panels + panels - 1) / panels;
  ctx.pool.parallel_for(row_chunks * panel_chunks, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t chunk = task / panel_chunks;
      const int64_t panel = task % panel_chunks * panels;
      run(call, {num_tokens * chunk / row_chunks, num_tokens * (chunk + 1) / row_chunks, panel,
                 std::min(panel + panels, num_panels)});
    }
  });
}

}  // namespace

void linear(const KernelContext& ctx, float* out, int64_t out_stride, const float* x,
            int64_t x_stride, int64_t num_tokens, const PackedMatrix& weight, const float* bias,
            Epilogue epilogue) {
  if (num_tokens <= 0 || weight.num_rows() == 0) return;
  const LinearKernels& kernels = *pick(kLinear);
  const auto index = static_cast<size_t>(weight.format());
  const bool native = weight.arithmetic() == Arithmetic::kNative;
  const int64_t num_cols = weight.num_cols();
  const int64_t num_panels = (weight.num_rows() + kPanelRows - 1) / kPanelRows;
  LinearCall call;
  call.weight = weight.data();
  call.panel_bytes = weight.size_bytes() / static_cast<size_t>(num_panels);
  call.num_rows = weight.num_rows();
  call.num_cols = num_cols;
  call.x = reinterpret_cast<const std::byte*>(x);
  call.x_row_bytes = static_cast<size_t>(x_stride) * sizeof(float);
  call.out = out;
  call.out_stride = out_stride;
  call.bias = bias;
  call.add = epilogue == Epilogue::kAdd;

  const size_t mark = ctx.workspace.mark();
  if (native && kernels.prepare[index] != nullptr) {
    call.x_row_bytes =
        prepared_row_bytes(weight.format(), weight.arithmetic(), num_cols, kernels.bf16_bytes);
    std::byte* rows = ctx.workspace.take(call.x_row_bytes * static_cast<size_t>(num_tokens));
    prepare_rows(ctx, kernels.prepare[index], rows, call.x_row_bytes, x, x_stride, num_tokens,
                 num_cols);
    call.x = rows;
  }
  run_shared(ctx, native ? kernels.native[index] : kernels.f32[index], call, num_tokens);
  ctx.workspace.reset(mark);
}

size_t linear_workspace_bytes(const PackedMatrix& weight, int64_t num_tokens) {
  const size_t row = prepared_row_bytes(weight.format(), weight.arithmetic(), weight.num_cols(),
                                        /*bf16_bytes=*/4);  // at most
  return (row * static_cast<size_t>(std::max<int64_t>(num_tokens, 0)) + 63) / 64 * 64;
}

}  // namespace octavo::kernels
