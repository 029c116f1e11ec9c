#include "kernels/simd/simd_generic.h"
//
#include "kernels/silu_and_mul/silu_and_mul_impl.h"

namespace octavo::kernels::generic {
const SiluAndMulRun kSiluAndMul = silu_and_mul_row<SimdGeneric>;
}
