#include "kernels/simd/simd_avx2.h"
//
#include "kernels/rms_norm/rms_norm_impl.h"

namespace octavo::kernels::avx2 {
const RmsNormKernels kRmsNorm = rms_norm_kernels<SimdAvx2>();
}
