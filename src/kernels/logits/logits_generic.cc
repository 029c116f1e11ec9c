#include "kernels/simd/simd_generic.h"
//
#include "kernels/logits/logits_impl.h"

namespace octavo::kernels::generic {
const LogitsKernels kLogits = logits_kernels<SimdGeneric>();
}
