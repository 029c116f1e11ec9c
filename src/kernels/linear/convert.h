#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/linear/linear.h"

// Scalar conversions between the float formats, for packing and for single rows.

namespace octavo::kernels {

inline float float_from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

inline float float_from_bf16(uint16_t half) {
  return float_from_bits(static_cast<uint32_t>(half) << 16);
}

/// Ties to even; a NaN stays a NaN.
inline uint16_t bf16_from_float(float value) {
  const uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float float_from_f16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 31;
  const uint32_t mantissa = half & 1023;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return float_from_bits(sign | bits_of(magnitude));
  }
  const uint32_t biased = exponent == 31 ? 255 : exponent + 112;
  return float_from_bits(sign | biased << 23 | mantissa << 13);
}

/// Ties to even; overflow gives infinity, a NaN stays a NaN.
inline uint16_t f16_from_float(float value) {
  const uint32_t bits = bits_of(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00);  // 65536 and above
  if (magnitude < 0x38800000u) {  // below 2^-14: the sum with 0.5 has the spacing of subnormals
    const float shifted = float_from_bits(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bits_of(shifted) - bits_of(0.5f)));
  }
  // A carry out of the mantissa raises the exponent, up to infinity: as it should.
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | (rounded - (112u << 23)) >> 13);
}

/// Element `index` of a row of F32, F16 or BF16, at any alignment.
inline float load_element(WeightFormat format, const std::byte* row, int64_t index) {
  if (format == WeightFormat::kF32) {
    float value;
    std::memcpy(&value, row + index * 4, 4);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, row + index * 2, 2);
  return format == WeightFormat::kF16 ? float_from_f16(half) : float_from_bf16(half);
}

}  // namespace octavo::kernels
