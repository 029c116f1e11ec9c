#include "model/layers/residual.h"

namespace octavo::model {
namespace {
constexpr int64_t kGrain = 16 << 10;  // elements: some microseconds of work
}  // namespace

void scale(const kernels::KernelContext& ctx, float* x, int64_t count, float factor) {
  if (factor == 1.0f) return;
  ctx.pool.parallel_for(count, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) x[i] *= factor;
  });
}

Status add_to_residual(const kernels::KernelContext& ctx, const Activations& activations,
                       const Linear& projection, const float* x, int64_t num_rows, float multiplier,
                       std::span<const int32_t> row_adapters) {
  float* const hidden = activations.hidden;
  if (multiplier == 1.0f) {
    return projection.forward(ctx, hidden, x, num_rows, kernels::Epilogue::kAdd, row_adapters);
  }
  // Both users have read `normed` by now.
  float* const product = activations.normed;
  OCTAVO_TRY(
      projection.forward(ctx, product, x, num_rows, kernels::Epilogue::kStore, row_adapters));
  const int64_t count = num_rows * projection.num_rows();
  ctx.pool.parallel_for(count, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) hidden[i] += multiplier * product[i];
  });
  return {};
}

}  // namespace octavo::model
