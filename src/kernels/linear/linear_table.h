#pragma once

#include "kernels/linear/block_impl.h"
#include "kernels/linear/linear_impl.h"

namespace octavo::kernels {
namespace {

template <class S, class Q>
constexpr void add_block_format(LinearKernels& kernels, int index) {
  kernels.native[index] = run_blocks<S, Q>;
  if constexpr (!S::kBytesOnly) {
    kernels.f32[index] = run_tiles<F32Tiles<S, WeightBlocks<Q>>>;
    if constexpr (Q::kScales == BlockScales::kHalves) {
      kernels.prepare[index] = quantise_row_halves<S>;
    } else {
      kernels.prepare[index] = quantise_row<S, Starts<Q>>;
    }
  }
}

/// The three group sizes of a kind, from `index` on.
template <class S, bool kEight>
constexpr void add_affine_formats(LinearKernels& kernels, int index) {
  add_block_format<S, Affine<kEight, 32>>(kernels, index);
  add_block_format<S, Affine<kEight, 64>>(kernels, index + 1);
  add_block_format<S, Affine<kEight, 128>>(kernels, index + 2);
}

template <class S, int kGroup>
constexpr void add_f8_format(LinearKernels& kernels, int index) {
  if constexpr (!S::kBytesOnly) {
    kernels.native[index] = kernels.f32[index] = run_tiles<F32Tiles<S, WeightF8<kGroup>>>;
    kernels.prepare[index] = nullptr;
  }
}

/// Every format of one ISA.
template <class S>
constexpr LinearKernels all_linear_kernels() {
  LinearKernels kernels = linear_kernels<S>();
  add_block_format<S, Q5_0>(kernels, kIndexQ5_0);
  add_block_format<S, Q5_1>(kernels, kIndexQ5_1);
  add_block_format<S, Q4_K>(kernels, kIndexQ4_K);
  add_block_format<S, Q5_K>(kernels, kIndexQ5_K);
  add_block_format<S, Q6_K>(kernels, kIndexQ6_K);
  add_affine_formats<S, false>(kernels, kIndexI4G32);
  add_affine_formats<S, true>(kernels, kIndexI8G32);
  add_f8_format<S, 32>(kernels, kIndexF8G32);
  add_f8_format<S, 64>(kernels, kIndexF8G32 + 1);
  add_f8_format<S, 128>(kernels, kIndexF8G32 + 2);
  return kernels;
}

}  // namespace
}  // namespace octavo::kernels
