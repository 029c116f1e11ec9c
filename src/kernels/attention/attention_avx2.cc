#include "kernels/simd/simd_avx2.h"
//
#include "kernels/attention/kv_write_impl.h"

namespace octavo::kernels::avx2 {
const AttentionKernels kAttention[3] = {attention_kernels<SimdAvx2, KvF32>(),
                                        attention_kernels<SimdAvx2, KvF16>(),
                                        attention_kernels<SimdAvx2, KvBF16>()};
}
