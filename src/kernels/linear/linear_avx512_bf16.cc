#include "kernels/simd/simd_avx512_bf16.h"
//
#include "kernels/linear/linear_impl.h"

namespace octavo::kernels::avx512_bf16 {
constinit const LinearKernels kLinear = [] {
  LinearKernels kernels{};
  kernels.native[kIndexBF16] = run_tiles<Bf16Tiles<SimdAvx512Bf16>>;
  kernels.prepare[kIndexBF16] = prepare_each<round_row_bf16<SimdAvx512Bf16>>;
  kernels.bf16_bytes = 2;
  return kernels;
}();
}  // namespace octavo::kernels::avx512_bf16
