#pragma once

#include "kernels/simd/simd_avx2.h"

namespace octavo::kernels {
namespace {

/// With AVX-VNNI: four products of bytes and their sum in one instruction.
struct SimdAvx2Vnni : SimdAvx2 {
  static constexpr bool kBytesOnly = true;
  OCTAVO_SIMD I dpbusd(I acc, I w, I x) {
    return {_mm256_dpbusd_avx_epi32(acc.a, w.a, x.a), _mm256_dpbusd_avx_epi32(acc.b, w.b, x.b)};
  }
  OCTAVO_SIMD I dpbusd_nibbles(I acc, I w, I x) { return dpbusd(acc, w, x); }
};

}  // namespace
}  // namespace octavo::kernels
