#pragma once

#include "kernels/linear/block_impl.h"
#include "kernels/linear/f32_impl.h"
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
  kernels.native[index] = run_with_taken<S, Q>;
  if constexpr (!S::kBytesOnly) {
    kernels.f32[index] = run_widening<S, WidenBlocks<Q>>;
    kernels.prepare[index] =
        quantise_rows<S, quant_sum_of(Q::kScales), zero_bits_of(Q::kZeroPoint)>;
  }
}

/// F32, F16 and BF16.
template <class S>
constexpr void add_floats(LinearKernels& kernels) {
  static_assert(!S::kBf16Dot);  // linear_avx512_bf16.cc
  kernels.native[kIndexF32] = kernels.f32[kIndexF32] = run_floats<S, WeightF32>;
  kernels.native[kIndexF16] = kernels.f32[kIndexF16] = run_floats<S, WeightF16>;
  kernels.native[kIndexBF16] = run_bf16_pairs<S>;
  kernels.f32[kIndexBF16] = run_floats<S, WeightBF16<false>>;
  kernels.prepare[kIndexF16] = prepare_each<round_row_f16<S>>;
  kernels.prepare[kIndexBF16] = prepare_each<round_row_bf16<S>>;
  kernels.bf16_bytes = 4;
}

/// Every format of one ISA; with S::kBytesOnly products of bytes alone, the rest is nullptr.
template <class S>
constexpr LinearKernels all_linear_kernels() {
  LinearKernels kernels{};
  if constexpr (!S::kBytesOnly) add_floats<S>(kernels);
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
