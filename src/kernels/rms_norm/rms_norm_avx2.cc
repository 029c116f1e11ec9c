#include "kernels/simd/simd_avx2.h"
//
#include "kernels/rms_norm/rms_norm_impl.h"

namespace octavo::kernels::avx2 {
const RmsNormRun kRmsNorm = rms_norm_row<SimdAvx2>;
}
