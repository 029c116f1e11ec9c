#include "kernels/simd/simd_avx2.h"
//
#include "kernels/logits/logits_impl.h"

namespace octavo::kernels::avx2 {
const LogitsKernels kLogits = logits_kernels<SimdAvx2>();
}
