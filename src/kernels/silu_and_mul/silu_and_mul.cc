#include "kernels/silu_and_mul/silu_and_mul.h"

#include "kernels/silu_and_mul/silu_and_mul_params.h"
#include "kernels/variants.h"

namespace octavo::kernels {
namespace {
constexpr auto kSiluAndMul = std::to_array<Variant<const SiluAndMulRun*>>({
    {Isa::kAvx512Core, &avx512_core::kSiluAndMul},
    {Isa::kAvx2, &avx2::kSiluAndMul},
    {Isa::kGeneric, &generic::kSiluAndMul},
});
}  // namespace

void silu_and_mul(float* out, const float* gate, const float* up, int64_t size) {
  (*pick(kSiluAndMul))(out, gate, up, size);
}

}  // namespace octavo::kernels
