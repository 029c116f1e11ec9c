#include "kernels/simd/simd_avx512_core.h"
//
#include "kernels/linear/linear_table.h"

namespace octavo::kernels::avx512_core {
constinit const LinearKernels kLinear = all_linear_kernels<SimdAvx512Core>();
}
