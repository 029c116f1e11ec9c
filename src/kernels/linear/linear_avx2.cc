#include "kernels/simd/simd_avx2.h"
//
#include "kernels/linear/linear_table.h"

namespace octavo::kernels::avx2 {
constinit const LinearKernels kLinear = all_linear_kernels<SimdAvx2>();
}
