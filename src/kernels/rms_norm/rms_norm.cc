#include "kernels/rms_norm/rms_norm.h"

#include <algorithm>

#include "kernels/rms_norm/rms_norm_params.h"
#include "kernels/variants.h"

namespace octavo::kernels {
namespace {
constexpr auto kRmsNorm = std::to_array<Variant<const RmsNormKernels*>>({
    {Isa::kAvx512Core, &avx512_core::kRmsNorm},
    {Isa::kAvx2, &avx2::kRmsNorm},
    {Isa::kGeneric, &generic::kRmsNorm},
});
}  // namespace

const RmsNormKernels& current_rms_norm_kernels() { return *pick(kRmsNorm); }

void rms_norm(const KernelContext& ctx, float* out, int64_t out_stride, const float* x,
              int64_t x_stride, int64_t num_rows, int64_t num_cols, const float* weight,
              float eps) {
  const RmsNormKernels& kernels = current_rms_norm_kernels();
  ctx.pool.parallel_for(num_rows, rows_per_task(num_cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const float* const from = x + row * x_stride;
      kernels.scale(out + row * out_stride, from, weight, num_cols,
                    kernels.factor(from, num_cols, eps));
    }
  });
}

}  // namespace octavo::kernels
