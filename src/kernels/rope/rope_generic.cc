#include "kernels/simd/simd_generic.h"
//
#include "kernels/rope/rope_impl.h"

namespace octavo::kernels::generic {
const RopeRun kRope = rope_row<SimdGeneric>;
}
