#include "kernels/simd/simd_avx512_core.h"
//
#include "kernels/attention/fp8_impl.h"

namespace octavo::kernels::avx512_core {
const AttentionKernels kAttention[device::kNumDTypes] = {
    attention_kernels<SimdAvx512Core, KvF32>(), attention_kernels<SimdAvx512Core, KvF16>(),
    attention_kernels<SimdAvx512Core, KvBF16>(), fp8_attention_kernels<SimdAvx512Core, E4M3>(),
    fp8_attention_kernels<SimdAvx512Core, E5M2>()};
}  // namespace octavo::kernels::avx512_core
