#include "kernels/simd/simd_generic.h"
//
#include "kernels/linear/linear_table.h"

namespace octavo::kernels::generic {
constinit const LinearKernels kLinear = all_linear_kernels<SimdGeneric>();
}
