#include "kernels/simd/simd_avx2.h"
//
#include "kernels/linear/linear_impl.h"

namespace octavo::kernels::avx2 {
const LinearKernels kLinear = linear_kernels<SimdAvx2>();
}
