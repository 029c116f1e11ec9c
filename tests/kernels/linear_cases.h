#pragma once

#include <algorithm>

#include "kernels/linear/convert.h"
#include "support.h"

// The f64 reference of `linear` on the file's own bytes, and how far a kernel may be from it.

namespace octavo::kernels {

inline constexpr WeightFormat kAllFormats[] = {
    WeightFormat::kF32,    WeightFormat::kF16,    WeightFormat::kBF16,  WeightFormat::kQ8_0,
    WeightFormat::kQ4_0,   WeightFormat::kQ4_1,   WeightFormat::kQ5_0,  WeightFormat::kQ5_1,
    WeightFormat::kQ4_K,   WeightFormat::kQ5_K,   WeightFormat::kQ6_K,  WeightFormat::kI4G32,
    WeightFormat::kI4G64,  WeightFormat::kI4G128, WeightFormat::kI8G32, WeightFormat::kI8G64,
    WeightFormat::kI8G128, WeightFormat::kF8G32,  WeightFormat::kF8G64, WeightFormat::kF8G128};
static_assert(std::size(kAllFormats) == kWeightFormatCount);

inline bool is_block_format(WeightFormat format) { return format >= WeightFormat::kQ8_0; }
inline bool is_affine(WeightFormat format) {
  return format >= WeightFormat::kI4G32 && format < WeightFormat::kF8G32;
}
inline bool is_f8(WeightFormat format) { return format >= WeightFormat::kF8G32; }

/// `cols`, or for the super-blocks about twice as many, for groups the next whole number of them.
inline int64_t whole_blocks(WeightFormat format, int64_t cols) {
  const int64_t block = block_elements(format);
  return block == 256 ? (cols + 127) / 128 * 256 : (cols + block - 1) / block * block;
}

/// Random rows as they lie in a file.
inline std::vector<std::byte> random_weight(WeightFormat format, int64_t rows, int64_t cols,
                                            Numbers& numbers) {
  std::vector<std::byte> bytes(static_cast<size_t>(rows) * row_bytes(format, cols));
  const auto put = [&](size_t at, auto value) { std::memcpy(&bytes[at], &value, sizeof value); };
  if (!is_block_format(format)) {
    const size_t size = format == WeightFormat::kF32 ? 4 : 2;
    for (size_t i = 0; i < bytes.size(); i += size) {
      const float value = numbers.value();
      if (format == WeightFormat::kF32) put(i, value);
      if (format == WeightFormat::kF16) put(i, f16_from_float(value));
      if (format == WeightFormat::kBF16) put(i, bf16_from_float(value));
    }
    return bytes;
  }
  const size_t block = row_bytes(format, block_elements(format));
  const bool super_block = block_elements(format) == 256;
  for (size_t i = 0; i < bytes.size(); i += block) {
    for (size_t j = 0; j < block; ++j) bytes[i + j] = static_cast<std::byte>(numbers.next() >> 40);
    if (is_affine(format) || is_f8(format)) {
      // Quants up to 255 and codes up to 448: values up to about 1.
      const float scale = format < WeightFormat::kI8G32 ? 0.1f : 0.1f / 16;
      put(i, float_from_f16(f16_from_float(numbers.value() * scale)));
      if (is_affine(format)) {
        const uint64_t mask = format < WeightFormat::kI8G32 ? 15 : 255;
        put(i + 4, f16_from_float(static_cast<float>(numbers.next() >> 40 & mask)));
        continue;
      }
      for (size_t j = 4; j < block; ++j) {
        // Half of the largest exponents, and NaN, become small numbers.
        if ((bytes[i + j] & std::byte{0x7f}) > std::byte{0x60}) bytes[i + j] &= std::byte{0x8f};
      }
      continue;
    }
    const float scale = super_block ? 0.1f / 32 : 0.1f;
    put(format == WeightFormat::kQ6_K ? i + 208 : i, f16_from_float(numbers.value() * scale));
    const bool has_min = format == WeightFormat::kQ4_1 || format == WeightFormat::kQ5_1 ||
                         format == WeightFormat::kQ4_K || format == WeightFormat::kQ5_K;
    if (has_min) put(i + 2, f16_from_float(numbers.value() * (super_block ? 1.0f / 32 : 1.0f)));
  }
  return bytes;
}

/// Element `j` of one block of a file, written down from the formats' definition in ggml.
inline double widen_element(WeightFormat format, const std::byte* block, int j) {
  const auto byte = [&](int at) { return static_cast<int>(block[at]); };
  const auto half = [&](int at) {
    uint16_t bits;
    std::memcpy(&bits, block + at, 2);
    return static_cast<double>(float_from_f16(bits));
  };
  const auto single = [&](int at) {
    float value;
    std::memcpy(&value, block + at, 4);
    return static_cast<double>(value);
  };
  const auto nibble = [&](int head) {
    return j < 16 ? byte(head + j) & 15 : byte(head + j - 16) >> 4;
  };
  const auto fifth = [&](int head) { return (byte(head + j / 8) >> (j % 8) & 1) << 4; };
  switch (format) {
    case WeightFormat::kQ8_0:
      return half(0) * static_cast<int8_t>(block[2 + j]);
    case WeightFormat::kQ4_0:
      return half(0) * (nibble(2) - 8);
    case WeightFormat::kQ4_1:
      return half(0) * nibble(4) + half(2);
    case WeightFormat::kQ5_0:
      return half(0) * ((nibble(6) | fifth(2)) - 16);
    case WeightFormat::kQ5_1:
      return half(0) * (nibble(8) | fifth(4)) + half(2);
    case WeightFormat::kQ6_K: {
      const int l = j % 32, part = j % 128 / 32, n = j / 128;
      const int low = byte(64 * n + 32 * (part & 1) + l) >> (part < 2 ? 0 : 4) & 15;
      const int high = byte(128 + 32 * n + l) >> (2 * part) & 3;
      return half(208) * static_cast<int8_t>(block[192 + j / 16]) * ((low | high << 4) - 32);
    }
    case WeightFormat::kI4G32:
    case WeightFormat::kI4G64:
    case WeightFormat::kI4G128: {
      const int packed = byte(6 + 16 * (j / 32) + j % 16);
      return single(0) * ((j % 32 < 16 ? packed & 15 : packed >> 4) - half(4));
    }
    case WeightFormat::kI8G32:
    case WeightFormat::kI8G64:
    case WeightFormat::kI8G128:
      return single(0) * (byte(6 + j) - half(4));
    case WeightFormat::kF8G32:
    case WeightFormat::kF8G64:
    case WeightFormat::kF8G128: {  // e4m3: 2^(e - 7) (1 + m / 8), without the one below 2^-6
      const int code = byte(4 + j), e = code >> 3 & 15, m = code & 7;
      const double value = e == 0 ? std::ldexp(m, -9) : std::ldexp(8 + m, e - 10);
      return single(0) * (code >= 128 ? -value : value);
    }
    default: {  // Q4_K, Q5_K
      const int g = j / 32;
      const int scale = g < 4 ? byte(4 + g) & 63 : (byte(8 + g) & 15) | (byte(g) >> 6) << 4;
      const int min = g < 4 ? byte(8 + g) & 63 : byte(8 + g) >> 4 | (byte(4 + g) >> 6) << 4;
      const bool five = format == WeightFormat::kQ5_K;
      int q = byte((five ? 48 : 16) + 32 * (g / 2) + j % 32) >> (4 * (g % 2)) & 15;
      if (five) q |= (byte(16 + j % 32) >> g & 1) << 4;
      return half(0) * scale * q - half(2) * min;
    }
  }
}

/// One row of a file, widened.
inline std::vector<double> widen_row(WeightFormat format, const std::byte* row, int64_t cols) {
  std::vector<double> out(static_cast<size_t>(cols));
  const int64_t elements = block_elements(format);
  for (int64_t k = 0; k < cols; ++k) {
    if (!is_block_format(format)) {
      out[static_cast<size_t>(k)] = load_element(format, row, k);
      continue;
    }
    const std::byte* const block =
        row + static_cast<size_t>(k / elements) * row_bytes(format, elements);
    out[static_cast<size_t>(k)] = widen_element(format, block, static_cast<int>(k % elements));
  }
  return out;
}

struct Expected {
  double value = 0;
  double tolerance = 0;
};

/// Product of one row of x with one widened row of the weight, and how far a kernel may be from it.
///   f32 sums: each of the K steps rounds once, relative to the partial sums, which the sum of
///     magnitudes bounds: K * 2^-24 * sum |w x|, twice for the multiplication of an unfused row,
///     and once more per weight for its own rounding (d * q + m).
///   x rounded to bf16: 2^-8 relative per element (half an ulp is 2^-9; flushed subnormals are
///     below any sum here); to f16: 2^-11.
///   x quantised: half a step of its block's scale, max|x| / 127 / 2, against |w|.
inline Expected expect_product(WeightFormat format, Arithmetic arithmetic, const float* x,
                               const std::vector<double>& w) {
  Expected expected;
  double magnitude = 0;
  double quantised = 0;
  double largest = 0;  // |x| of the block of 32
  for (size_t k = 0; k < w.size(); ++k) {
    expected.value += w[k] * x[k];
    magnitude += std::abs(w[k] * x[k]);
    if (!is_block_format(format)) continue;
    if (k % 32 == 0) {
      largest = 0;
      for (size_t j = k; j < k + 32; ++j) {
        largest = std::max(largest, std::abs(static_cast<double>(x[j])));
      }
    }
    if (is_f8(format)) continue;
    quantised += largest / 127 / 2 * (std::abs(w[k]) + 1e-6);
    // Formats with a minimum or a zero point split a weight into d * q and m, whose magnitudes may
    // exceed the weight's: in random_weight up to 2, with 8 bits 255 * 0.1 / 16 < 2 each, in
    // super-blocks 0.1 / 32 * 63 * 31 + 63 / 32 < 9.
    magnitude += largest * (block_elements(format) == 256 ? 9 : 4);
  }
  const double steps = static_cast<double>(w.size()) + 8;
  expected.tolerance = 3 * steps * 0x1p-24 * magnitude + 1e-30;
  if (arithmetic == Arithmetic::kNative) {
    if (format == WeightFormat::kBF16) expected.tolerance += 0x1p-8 * magnitude;
    if (format == WeightFormat::kF16) expected.tolerance += 0x1p-11 * magnitude;
    if (is_block_format(format)) expected.tolerance += 1.01 * quantised;  // 0 for F8
  }
  return expected;
}

}  // namespace octavo::kernels
