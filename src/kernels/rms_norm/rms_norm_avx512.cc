#include "kernels/simd/simd_avx512.h"
//
#include "kernels/rms_norm/rms_norm_impl.h"

namespace octavo::kernels::avx512 {
const RmsNormRun kRmsNorm = rms_norm_row<SimdAvx512>;
}
