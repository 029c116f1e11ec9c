#include "kernels/simd/simd_avx512.h"
//
#include "kernels/attention/fp8_impl.h"

namespace octavo::kernels::avx512 {
const AttentionKernels kAttention[device::kNumDTypes] = {
    attention_kernels<SimdAvx512, KvF32>(), attention_kernels<SimdAvx512, KvF16>(),
    attention_kernels<SimdAvx512, KvBF16>(), fp8_attention_kernels<SimdAvx512, E4M3>(),
    fp8_attention_kernels<SimdAvx512, E5M2>()};
const AttentionKernels kAttentionBf16Dot[device::kNumDTypes] = {
    attention_kernels<SimdAvx512Bf16Dot, KvF32>(), attention_kernels<SimdAvx512Bf16Dot, KvF16>(),
    attention_kernels<SimdAvx512Bf16Dot, KvBF16>(),
    fp8_attention_kernels<SimdAvx512Bf16Dot, E4M3>(),
    fp8_attention_kernels<SimdAvx512Bf16Dot, E5M2>()};
}  // namespace octavo::kernels::avx512
