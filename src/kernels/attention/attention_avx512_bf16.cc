#include "kernels/simd/simd_avx512_bf16.h"
//
#include "kernels/attention/fp8_impl.h"

namespace octavo::kernels::avx512_bf16 {
const AttentionKernels kAttention[device::kNumDTypes] = {
    attention_kernels<SimdAvx512Bf16, KvF32>(), attention_kernels<SimdAvx512Bf16, KvF16>(),
    attention_kernels<SimdAvx512Bf16, KvBF16>(), fp8_attention_kernels<SimdAvx512Bf16, E4M3>(),
    fp8_attention_kernels<SimdAvx512Bf16, E5M2>()};
}  // namespace octavo::kernels::avx512_bf16
