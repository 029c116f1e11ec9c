#include "kernels/simd/simd_avx512_core.h"
//
#include "kernels/rope/rope_impl.h"

namespace octavo::kernels::avx512_core {
const RopeRun kRope = rope_row<SimdAvx512Core>;
}
