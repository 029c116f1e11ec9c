#include "kernels/simd/simd_avx2_vnni.h"
//
#include "kernels/linear/linear_table.h"

namespace octavo::kernels::avx2_vnni {
constinit const LinearKernels kLinear = all_linear_kernels<SimdAvx2Vnni>();
}
