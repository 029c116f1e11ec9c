#include "kernels/simd/simd_avx512_core.h"
//
#include "kernels/rms_norm/rms_norm_impl.h"

namespace octavo::kernels::avx512_core {
const RmsNormKernels kRmsNorm = rms_norm_kernels<SimdAvx512Core>();
}
