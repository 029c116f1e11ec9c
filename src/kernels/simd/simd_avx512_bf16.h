#pragma once

#include "kernels/simd/simd_avx512_core.h"

namespace octavo::kernels {
namespace {

/// For CPUs on which the bf16 dot is twice as fast as FMAs (Zen 4 and 5).
struct SimdAvx512Bf16 : SimdAvx512Core {
  static constexpr bool kBf16Dot = true;
  static constexpr int kBf16Rows = 8, kBf16Panels = 3, kBf16GemvPanels = 4;
  /// Subnormals become zero, as they would in dpbf16 anyway.
  OCTAVO_SIMD I bf16_bits(F x) {
    return _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
  }
  OCTAVO_SIMD F round_bf16(F x) { return as_f(sll<16>(bf16_bits(x))); }
  OCTAVO_SIMD F dpbf16(F acc, I w, I x) {
    return _mm512_dpbf16_ps(acc, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x));
  }
};

}  // namespace
}  // namespace octavo::kernels
