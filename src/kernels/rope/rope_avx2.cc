#include "kernels/simd/simd_avx2.h"
//
#include "kernels/rope/rope_impl.h"

namespace octavo::kernels::avx2 {
const RopeRun kRope = rope_row<SimdAvx2>;
}
