#pragma once

#include "kernels/linear/block_impl.h"
#include "kernels/linear/linear_impl.h"
#include "kernels/linear/quantise_impl.h"
#include "kernels/linear/widened_impl.h"

namespace octavo::kernels {
namespace {

constexpr QuantSum quant_sum_of(BlockScales scales) {
  switch (scales) {
    case BlockScales::kOne:
      return QuantSum::kStart;
    case BlockScales::kMin:
      return QuantSum::kScaled;
    case BlockScales::kHalves:
      return QuantSum::kHalves;
  }
}
constexpr int zero_bits_of(int zero_point) {
  int bits = 0;
  while (1 << bits < zero_point) ++bits;
  return bits;
}

/// A format of block_formats.h.
template <class S, class Q>
constexpr void add_block_format(LinearKernels& kernels, int index) {
  kernels.native[index] = run_blocks<S, Q>;
  if constexpr (!S::kBytesOnly) {
    kernels.f32[index] = run_widening<S, WidenBlocks<Q>>;
    kernels.prepare[index] =
        quantise_rows<S, quant_sum_of(Q::kScales), zero_bits_of(Q::kZeroPoint)>;
  }
}

/// Every format of one ISA.
template <class S>
constexpr LinearKernels all_linear_kernels() {
  LinearKernels kernels = linear_kernels<S>();
  add_block_format<S, Q8_0>(kernels, kIndexQ8_0);
  add_block_format<S, Q4_0>(kernels, kIndexQ4_0);
  add_block_format<S, Q4_1>(kernels, kIndexQ4_1);
  add_block_format<S, Q5_0>(kernels, kIndexQ5_0);
  add_block_format<S, Q5_1>(kernels, kIndexQ5_1);
  add_block_format<S, Q4_K>(kernels, kIndexQ4_K);
  add_block_format<S, Q5_K>(kernels, kIndexQ5_K);
  add_block_format<S, Q6_K>(kernels, kIndexQ6_K);
  for (int i = 0; i < kGroupSizes; ++i) {
    add_block_format<S, Affine<false>>(kernels, kIndexI4G32 + i);
    add_block_format<S, Affine<true>>(kernels, kIndexI8G32 + i);
    if constexpr (!S::kBytesOnly) {
      kernels.native[kIndexF8G32 + i] = kernels.f32[kIndexF8G32 + i] = run_widening<S, WidenF8>;
    }
  }
  return kernels;
}

}  // namespace
}  // namespace octavo::kernels
