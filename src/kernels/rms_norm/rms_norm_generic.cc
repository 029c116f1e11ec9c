#include "kernels/simd/simd_generic.h"
//
#include "kernels/rms_norm/rms_norm_impl.h"

namespace octavo::kernels::generic {
const RmsNormKernels kRmsNorm = rms_norm_kernels<SimdGeneric>();
}
