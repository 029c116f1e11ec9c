#pragma once

#include <cstdint>

// The one-byte float formats of the KV cache (OCP 8-bit Floating Point Specification, 2023): sign,
// exponent, mantissa from the highest bit down. Every value of both is a normal bf16 number or
// zero, so widening loses nothing. Nothing here comes from the library: the file is included where
// ISA flags are set.

namespace octavo::kernels {
namespace {

/// bf16 bits of every code, and those parts of the list that vector code looks up.
struct Fp8Table {
  uint16_t widened[256] = {};
  uint16_t ends[32] = {};  // by a code's low five bits: subnormals, infinity and NaN, without sign
  uint8_t low_ends[16] = {};  // subnormals alone: eight low bytes, eight high bytes
};

/// bf16 bits of `code`: the definition.
template <class Form>
constexpr uint16_t widen_code(int code) {
  const int sign = code >> 7 << 15;
  const int magnitude = code & 0x7f;
  int exponent = magnitude >> Form::kMantissaBits;
  int mantissa = magnitude & ((1 << Form::kMantissaBits) - 1);
  if (magnitude > Form::kLargestCode) {
    const bool is_infinity = Form::kHasInfinity && mantissa == 0;
    return static_cast<uint16_t>(sign | (is_infinity ? 0x7f80 : 0x7fc0));
  }
  if (magnitude == 0) return static_cast<uint16_t>(sign);
  if (exponent == 0) {  // subnormal: no leading one; bf16 has exponents enough to give it one
    exponent = 1;
    while (mantissa >> Form::kMantissaBits == 0) {
      mantissa <<= 1;
      --exponent;
    }
    mantissa &= (1 << Form::kMantissaBits) - 1;
  }
  return static_cast<uint16_t>(sign | (exponent + 127 - Form::kBias) << 7 |
                               mantissa << (7 - Form::kMantissaBits));
}

template <class Form>
constexpr Fp8Table make_fp8_table() {
  Fp8Table table;
  for (int code = 0; code < 256; ++code) table.widened[code] = widen_code<Form>(code);
  for (int code = 0; code < 128; ++code) {
    if (code < Form::kNumLow || code > Form::kLargestCode) {
      table.ends[code % 32] = table.widened[code];
    }
  }
  for (int code = 0; code < Form::kNumLow; ++code) {
    table.low_ends[code] = static_cast<uint8_t>(table.widened[code]);
    table.low_ends[8 + code] = static_cast<uint8_t>(table.widened[code] >> 8);
  }
  return table;
}

template <class Form>
inline constexpr Fp8Table kFp8Table = make_fp8_table<Form>();

/// What follows from a format's bits. kNumLow codes from 0 on are zero and the subnormals, kNumHigh
/// codes up to 0x7f infinity and NaN.
template <class Form, int MantissaBits, int LargestCode>
struct Fp8Form {
  static constexpr int kMantissaBits = MantissaBits;
  static constexpr int kBias = (1 << (6 - MantissaBits)) - 1;
  static constexpr int kLargestCode = LargestCode;
  static constexpr int16_t kNumLow = 1 << MantissaBits;
  static constexpr int16_t kNumHigh = 0x7f - LargestCode;
  // A normal code becomes bf16 by a shift, this mask and this much on the exponent.
  static constexpr int kMove = 7 - MantissaBits;
  static constexpr int kKeep = 0x8000 | 0x7f << kMove;
  static constexpr int16_t kRebias = (127 - kBias) << 7;
};

struct E4M3 : Fp8Form<E4M3, 3, 0x7e> {
  static constexpr bool kHasInfinity = false;
  static constexpr float kLargest = 448.0f;
  static constexpr int16_t kHighBits = 0x7fc0;  // make NaN of what the shift gives
  static constexpr float kHalfFactor = 256.0f;  // its exponent field in a half's reads 8 lower
};

struct E5M2 : Fp8Form<E5M2, 2, 0x7b> {
  static constexpr bool kHasInfinity = true;
  static constexpr float kLargest = 57344.0f;
  static constexpr int16_t kHighBits = 0x7f80;  // keep the mantissa: zero for infinity
  static constexpr float kHalfFactor = 1.0f;    // it is the upper byte of a half
};

}  // namespace
}  // namespace octavo::kernels
