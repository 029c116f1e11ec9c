#include "kernels/simd/simd_avx512_core.h"
//
#include "kernels/silu_and_mul/silu_and_mul_impl.h"

namespace octavo::kernels::avx512_core {
const SiluAndMulRun kSiluAndMul = silu_and_mul_row<SimdAvx512Core>;
}
