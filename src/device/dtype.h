#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace octavo::device {

/// Element types of activations and of the KV cache. The two of one byte are the "OCP 8-bit
/// floating point" formats, of the cache only: E4M3 has 3 bits of mantissa, no infinity and ends at
/// 448; E5M2 is the upper byte of an IEEE half and ends at 57,344.
enum class DType : uint8_t { kF32, kF16, kBF16, kE4M3, kE5M2 };
inline constexpr size_t kNumDTypes = 5;

constexpr bool is_fp8(DType dtype) { return dtype == DType::kE4M3 || dtype == DType::kE5M2; }

/// Bytes of an element.
constexpr size_t size_of(DType dtype) {
  if (is_fp8(dtype)) return 1;
  return dtype == DType::kF32 ? 4 : 2;
}
/// vLLM's spelling: "float32", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2".
constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kF16:
      return "float16";
    case DType::kE4M3:
      return "fp8_e4m3";
    case DType::kE5M2:
      return "fp8_e5m2";
    default:
      return "bfloat16";
  }
}

}  // namespace octavo::device
