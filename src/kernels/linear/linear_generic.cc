#include "kernels/simd/simd_generic.h"
//
#include "kernels/linear/linear_impl.h"

namespace octavo::kernels::generic {
const LinearKernels kLinear = linear_kernels<SimdGeneric>();
}
