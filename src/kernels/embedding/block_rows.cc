#include "kernels/embedding/block_rows.h"

#include <cstring>

#include "kernels/linear/convert.h"
#include "kernels/linear/linear_params.h"
#include "kernels/simd/fp8_forms.h"

namespace octavo::kernels {
namespace {

/// What a lane owns in a panel: halves and 4-byte words at the places of row 0.
struct Lane {
  const std::byte* panel;
  int lane;

  float half(size_t at) const {
    uint16_t bits;
    std::memcpy(&bits, panel + at + 2 * static_cast<size_t>(lane), 2);
    return float_from_f16(bits);
  }
  float single(size_t at) const {
    float value;
    std::memcpy(&value, panel + at + 4 * static_cast<size_t>(lane), 4);
    return value;
  }
  /// Byte `index` of the row's words that start at `at`.
  uint32_t byte(size_t at, int index) const {
    return static_cast<uint32_t>(
        panel[at + static_cast<size_t>(64 * (index / 4) + 4 * lane + index % 4)]);
  }
};

constexpr size_t kHalves = 2 * kPanelRows;

void widen_q5(float* out, const Lane& lane, bool has_min) {
  const size_t bits = has_min ? 2 * kHalves : kHalves;
  const float d = lane.half(0);
  const float offset = has_min ? lane.half(kHalves) : d * -16.0f;
  for (int i = 0; i < kQuantBlock; ++i) {
    const uint32_t packed = lane.byte(bits + 64, i % 16);
    const uint32_t nibble = i < 16 ? packed & 15 : packed >> 4;
    const uint32_t fifth = lane.byte(bits, i % 4) >> (i / 4) & 1;
    out[i] = static_cast<float>(nibble | fifth << 4) * d + offset;
  }
}

void widen_q45k(float* out, const Lane& lane, bool has_fifth) {
  const float d = lane.half(0);
  const float dmin = lane.half(kHalves);
  constexpr size_t kScales = 2 * kHalves;
  constexpr size_t kFifths = kScales + 192;
  const size_t nibbles = kFifths + (has_fifth ? 512 : 0);
  for (int g = 0; g < 8; ++g) {
    const auto b = [&](int i) { return lane.byte(kScales, i); };
    const uint32_t scale = g < 4 ? b(g) & 63 : (b(g + 4) & 15) | b(g - 4) >> 6 << 4;
    const uint32_t min = g < 4 ? b(g + 4) & 63 : b(g + 4) >> 4 | b(g) >> 6 << 4;
    const float a = d * static_cast<float>(scale);
    const float offset = dmin * static_cast<float>(min);
    for (int i = 0; i < kQuantBlock; ++i) {
      uint32_t q = lane.byte(nibbles, 32 * (g / 2) + i) >> (4 * (g % 2)) & 15;
      if (has_fifth) q |= (lane.byte(kFifths, i) >> g & 1) << 4;
      *out++ = a * static_cast<float>(q) - offset;
    }
  }
}

void widen_q6k(float* out, const Lane& lane) {
  const float d = lane.half(0);
  constexpr size_t kNibbles = kHalves + 256;
  constexpr size_t kUpper = kNibbles + 2048;
  for (int i = 0; i < kSuperBlock; ++i) {
    const int half = i / 128;
    const int part = i / 32 % 4;
    const uint32_t nibble =
        lane.byte(kNibbles, 64 * half + 32 * (part % 2) + i % 32) >> (4 * (part / 2)) & 15;
    const uint32_t upper = lane.byte(kUpper, 32 * half + i % 32) >> (2 * part) & 3;
    const auto scale = static_cast<int8_t>(lane.byte(kHalves, i / 16));
    const int q = static_cast<int>(nibble | upper << 4) - 32;
    out[i] = d * static_cast<float>(scale) * static_cast<float>(q);
  }
}

void widen_affine(float* out, const Lane& lane, int64_t group, bool eight) {
  constexpr size_t kHead = 64 + kHalves;
  const float d = lane.single(0);
  const float offset = -(d * lane.half(64));
  for (int i = 0; i < group; ++i) {
    const int block = i / kQuantBlock, at = i % kQuantBlock;
    const uint32_t packed = eight ? lane.byte(kHead, i) : lane.byte(kHead, 16 * block + at % 16);
    const uint32_t q = eight ? packed : packed >> (at < 16 ? 0 : 4) & 15;
    out[i] = static_cast<float>(q) * d + offset;
  }
}

void widen_f8(float* out, const Lane& lane, int64_t group) {
  const float d = lane.single(0);
  for (int i = 0; i < group; ++i) {
    const auto code = lane.panel[static_cast<size_t>(64 + 32 * (i / 2) + 2 * lane.lane + i % 2)];
    out[i] = d * float_from_bf16(kFp8Table<E4M3>.widened[static_cast<size_t>(code)]);
  }
}

}  // namespace

void widen_packed_block_row(float* out, const std::byte* panel, int lane, int64_t num_cols,
                            WeightFormat format) {
  const auto elements = block_elements(format);
  const size_t bytes = row_bytes(format, elements) * kPanelRows;
  for (int64_t k = 0; k < num_cols; k += elements, panel += bytes, out += elements) {
    const Lane at{panel, lane};
    switch (format) {
      case WeightFormat::kQ5_0:
      case WeightFormat::kQ5_1:
        widen_q5(out, at, format == WeightFormat::kQ5_1);
        break;
      case WeightFormat::kQ4_K:
      case WeightFormat::kQ5_K:
        widen_q45k(out, at, format == WeightFormat::kQ5_K);
        break;
      case WeightFormat::kQ6_K:
        widen_q6k(out, at);
        break;
      default:
        if (format >= WeightFormat::kF8G32) {
          widen_f8(out, at, elements);
        } else {
          widen_affine(out, at, elements, format >= WeightFormat::kI8G32);
        }
    }
  }
}

}  // namespace octavo::kernels
