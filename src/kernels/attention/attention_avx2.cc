#include "kernels/simd/simd_avx2.h"
//
#include "kernels/attention/fp8_impl.h"

namespace octavo::kernels::avx2 {
const AttentionKernels kAttention[device::kNumDTypes] = {
    attention_kernels<SimdAvx2, KvF32>(), attention_kernels<SimdAvx2, KvF16>(),
    attention_kernels<SimdAvx2, KvBF16>(), fp8_attention_kernels<SimdAvx2, E4M3>(),
    fp8_attention_kernels<SimdAvx2, E5M2>()};
}
