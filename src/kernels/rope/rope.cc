#include "kernels/rope/rope.h"

#include <cmath>

#include "base/check.h"
#include "kernels/rope/rope_params.h"
#include "kernels/variants.h"

namespace octavo::kernels {
namespace {
constexpr auto kRope = std::to_array<Variant<const RopeRun*>>({
    {Isa::kAvx512Core, &avx512_core::kRope},
    {Isa::kAvx2, &avx2::kRope},
    {Isa::kGeneric, &generic::kRope},
});
}  // namespace

void rope_cos_sin(const KernelContext& ctx, float* cos_sin, const int32_t* positions,
                  int64_t num_tokens, const float* inv_freq, int64_t num_freqs, float scale) {
  constexpr int64_t kGrain = 16;  // tokens: some 16 us of library calls
  ctx.pool.parallel_for(num_tokens, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      float* const row = cos_sin + i * 2 * num_freqs;
      for (int64_t j = 0; j < num_freqs; ++j) {
        const float angle = static_cast<float>(positions[i]) * inv_freq[j];
        row[j] = std::cos(angle) * scale;
        row[num_freqs + j] = std::sin(angle) * scale;
      }
    }
  });
}

void rope(const KernelContext& ctx, float* x, int64_t x_stride, const float* cos_sin,
          int64_t num_tokens, int64_t num_heads, int64_t head_dim, int64_t num_freqs) {
  CHECK_LE(2 * num_freqs, head_dim);
  const RopeRun run = *pick(kRope);
  ctx.pool.parallel_for(
      num_tokens, rows_per_task(num_heads * head_dim), [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          const float* const cos = cos_sin + i * 2 * num_freqs;
          run(x + i * x_stride, cos, cos + num_freqs, num_heads, head_dim, num_freqs);
        }
      });
}

}  // namespace octavo::kernels
