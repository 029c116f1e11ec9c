#include "kernels/simd/simd_avx512.h"
//
#include "kernels/attention/kv_write_impl.h"

namespace octavo::kernels::avx512 {
const AttentionKernels kAttention[3] = {attention_kernels<SimdAvx512, KvF32>(),
                                        attention_kernels<SimdAvx512, KvF16>(),
                                        attention_kernels<SimdAvx512, KvBF16>()};
const AttentionKernels kAttentionBf16Dot[3] = {attention_kernels<SimdAvx512Bf16Dot, KvF32>(),
                                               attention_kernels<SimdAvx512Bf16Dot, KvF16>(),
                                               attention_kernels<SimdAvx512Bf16Dot, KvBF16>()};
}  // namespace octavo::kernels::avx512
