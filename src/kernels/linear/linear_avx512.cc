#include "kernels/simd/simd_avx512.h"
//
#include "kernels/linear/linear_table.h"

namespace octavo::kernels::avx512 {
const LinearKernels kLinear = all_linear_kernels<SimdAvx512>();
const LinearKernels kLinearBf16Dot = all_linear_kernels<SimdAvx512Bf16Dot>();
}  // namespace octavo::kernels::avx512
