#pragma once

#include "kernels/linear/block_impl.h"
#include "kernels/linear/linear_impl.h"
#include "kernels/linear/widened_impl.h"

namespace octavo::kernels {
namespace {

/// A format of block_formats.h.
template <class S, class Q>
constexpr void add_block_format(LinearKernels& kernels, int index) {
  kernels.native[index] = run_blocks<S, Q>;
  if constexpr (!S::kBytesOnly) {
    kernels.f32[index] = run_widening<S, WidenBlocks<Q>>;
    if constexpr (Q::kScales == BlockScales::kHalves) {
      kernels.prepare[index] = quantise_row_halves<S>;
    } else {
      kernels.prepare[index] = quantise_row<S, Q>;
    }
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
