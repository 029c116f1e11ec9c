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

void add_scaled(const kernels::KernelContext& ctx, float* out, const float* x, int64_t count,
                float factor) {
  ctx.pool.parallel_for(count, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) out[i] += factor * x[i];
  });
}

}  // namespace octavo::model
