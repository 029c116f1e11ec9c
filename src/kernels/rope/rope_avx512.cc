#include "kernels/simd/simd_avx512.h"
//
#include "kernels/rope/rope_impl.h"

namespace octavo::kernels::avx512 {
const RopeRun kRope = rope_row<SimdAvx512>;
}
