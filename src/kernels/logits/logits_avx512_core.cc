#include "kernels/simd/simd_avx512_core.h"
//
#include "kernels/logits/logits_impl.h"

namespace octavo::kernels::avx512_core {
const LogitsKernels kLogits = logits_kernels<SimdAvx512Core>();
}
