#include "kernels/simd/simd_generic.h"
//
#include "kernels/attention/fp8_impl.h"

namespace octavo::kernels::generic {
const AttentionKernels kAttention[device::kNumDTypes] = {
    attention_kernels<SimdGeneric, KvF32>(), attention_kernels<SimdGeneric, KvF16>(),
    attention_kernels<SimdGeneric, KvBF16>(), fp8_attention_kernels<SimdGeneric, E4M3>(),
    fp8_attention_kernels<SimdGeneric, E5M2>()};
}
