#include "kernels/simd/simd_generic.h"
//
#include "kernels/rms_norm/rms_norm_impl.h"

namespace octavo::kernels::generic {
const RmsNormRun kRmsNorm = rms_norm_row<SimdGeneric>;
}
