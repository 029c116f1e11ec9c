#include "kernels/simd/simd_avx2.h"
//
#include "kernels/silu_and_mul/silu_and_mul_impl.h"

namespace octavo::kernels::avx2 {
const SiluAndMulRun kSiluAndMul = silu_and_mul_row<SimdAvx2>;
}
