#include "kernels/simd/simd_avx512.h"
//
#include "kernels/linear/linear_impl.h"

namespace octavo::kernels::avx512 {
const LinearKernels kLinear = linear_kernels<SimdAvx512>();
const LinearKernels kLinearBf16Dot = linear_kernels<SimdAvx512Bf16Dot>();
}
