#include "kernels/simd/simd_avx512.h"
//
#include "kernels/linear/linear_table.h"

namespace octavo::kernels::avx512 {
constinit const LinearKernels kLinear = all_linear_kernels<SimdAvx512>();
}  // namespace octavo::kernels::avx512
