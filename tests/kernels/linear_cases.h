#pragma once

#include <algorithm>

#include "kernels/linear/convert.h"
#include "support.h"

// The f64 reference of `linear` on the file's own bytes, and how far a kernel may be from it.

namespace octavo::kernels {

inline constexpr WeightFormat kAllFormats[] = {WeightFormat::kF32,  WeightFormat::kF16,
                                               WeightFormat::kBF16, WeightFormat::kQ8_0,
                                               WeightFormat::kQ4_0, WeightFormat::kQ4_1};

inline bool is_block_format(WeightFormat format) { return format >= WeightFormat::kQ8_0; }

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
  const size_t block = row_bytes(format, 32);
  for (size_t i = 0; i < bytes.size(); i += block) {
    for (size_t j = 0; j < block; ++j) bytes[i + j] = static_cast<std::byte>(numbers.next() >> 40);
    put(i, f16_from_float(numbers.value() * 0.1f));
    if (format == WeightFormat::kQ4_1) put(i + 2, f16_from_float(numbers.value()));
  }
  return bytes;
}

/// One row of a file, widened; written down from the formats' definition in ggml.
inline std::vector<double> widen_row(WeightFormat format, const std::byte* row, int64_t cols) {
  std::vector<double> out(static_cast<size_t>(cols));
  for (int64_t k = 0; k < cols; ++k) {
    if (!is_block_format(format)) {
      out[static_cast<size_t>(k)] = load_element(format, row, k);
      continue;
    }
    const std::byte* const block = row + static_cast<size_t>(k / 32) * row_bytes(format, 32);
    const auto half = [&](int at) {
      uint16_t bits;
      std::memcpy(&bits, block + at, 2);
      return static_cast<double>(float_from_f16(bits));
    };
    const int j = static_cast<int>(k % 32);
    double value = 0;
    if (format == WeightFormat::kQ8_0) {
      value = half(0) * static_cast<int8_t>(block[2 + j]);
    } else {
      const int head = format == WeightFormat::kQ4_1 ? 4 : 2;
      const int byte = static_cast<int>(block[head + j % 16]);
      const int q = j < 16 ? byte & 15 : byte >> 4;
      value = format == WeightFormat::kQ4_1 ? half(0) * q + half(2) : half(0) * (q - 8);
    }
    out[static_cast<size_t>(k)] = value;
  }
  return out;
}

struct Expected {
  double value = 0;
  double tolerance = 0;
};

/// Product of one row of x with one widened row of the weight, and how far a kernel may be from it.
///   f32 sums: each of the K steps rounds once, relative to the partial sums, which the sum of
///     magnitudes bounds: K * 2^-24 * sum |w x|, twice for the multiplication of an unfused row, and
///     once more per weight for its own rounding (Q4_1's d * q + m).
///   x rounded to bf16: 2^-8 relative per element (half an ulp is 2^-9; flushed subnormals are
///     below any sum here); to f16: 2^-11.
///   x quantised: half a step of its block's scale, max|x| / 127 / 2, against |w|.
inline Expected expect_product(WeightFormat format, Arithmetic arithmetic, const float* x,
                               const std::vector<double>& w) {
  Expected expected;
  double magnitude = 0;
  double quantised = 0;
  for (size_t k = 0; k < w.size(); ++k) {
    expected.value += w[k] * x[k];
    magnitude += std::abs(w[k] * x[k]);
    if (is_block_format(format)) {
      double largest = 0;
      for (size_t j = k / 32 * 32; j < k / 32 * 32 + 32; ++j) {
        largest = std::max(largest, std::abs(static_cast<double>(x[j])));
      }
      // Q4_1 splits a weight into d * q and m, whose magnitudes may exceed the weight's.
      quantised += largest / 127 / 2 * (std::abs(w[k]) + 1e-6);
      magnitude += is_block_format(format) ? largest * 2 : 0;
    }
  }
  const double steps = static_cast<double>(w.size()) + 8;
  expected.tolerance = 3 * steps * 0x1p-24 * magnitude + 1e-30;
  if (arithmetic == Arithmetic::kNative) {
    if (format == WeightFormat::kBF16) expected.tolerance += 0x1p-8 * magnitude;
    if (format == WeightFormat::kF16) expected.tolerance += 0x1p-11 * magnitude;
    if (is_block_format(format)) expected.tolerance += 1.01 * quantised;
  }
  return expected;
}

}  // namespace octavo::kernels
