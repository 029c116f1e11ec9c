#include "kernels/simd/simd_generic.h"
//
#include "kernels/attention/kv_write_impl.h"

namespace octavo::kernels::generic {
const AttentionKernels kAttention[3] = {attention_kernels<SimdGeneric, KvF32>(),
                                        attention_kernels<SimdGeneric, KvF16>(),
                                        attention_kernels<SimdGeneric, KvBF16>()};
}
