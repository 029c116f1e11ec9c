#include "kernels/silu_and_mul/silu_and_mul.h"

#include "kernels/silu_and_mul/silu_and_mul_params.h"
#include "kernels/variants.h"

namespace octavo::kernels {
namespace {
constexpr auto kSiluAndMul = std::to_array<Variant<const SiluAndMulRun*>>({
    {Isa::kAvx512, &avx512::kSiluAndMul},
    {Isa::kAvx2, &avx2::kSiluAndMul},
    {Isa::kGeneric, &generic::kSiluAndMul},
});
}  // namespace

void silu_and_mul(const KernelContext& ctx, float* out, const float* gate_up, int64_t num_tokens,
                  int64_t size) {
  const SiluAndMulRun run = *pick(kSiluAndMul);
  ctx.pool.parallel_for(num_tokens, rows_per_task(size), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const float* gate = gate_up + row * 2 * size;
      run(out + row * size, gate, gate + size, size);
    }
  });
}

}  // namespace octavo::kernels
