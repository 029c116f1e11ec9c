#include "kernels/simd/simd_avx512.h"
//
#include "kernels/logits/logits_impl.h"

namespace octavo::kernels::avx512 {
const LogitsKernels kLogits = logits_kernels<SimdAvx512>();
}
