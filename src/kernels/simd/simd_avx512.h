#pragma once

#include "kernels/simd/simd_avx512_core.h"

namespace octavo::kernels {
namespace {

/// With VNNI: four products of bytes and their sum in one instruction.
struct SimdAvx512 : SimdAvx512Core {
  static constexpr bool kBytesOnly = true;
  static constexpr bool kOneDot = true;
  OCTAVO_SIMD I dpbusd(I acc, I w, I x) { return _mm512_dpbusd_epi32(acc, w, x); }
  OCTAVO_SIMD I dpbusd_nibbles(I acc, I w, I x) { return _mm512_dpbusd_epi32(acc, w, x); }
};

}  // namespace
}  // namespace octavo::kernels
