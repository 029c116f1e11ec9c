#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace octavo::device {

/// Element types of activations and of the KV cache.
enum class DType : uint8_t { kF32, kF16, kBF16 };

constexpr size_t size_of(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }
/// vLLM's spelling: "float32", "float16", "bfloat16".
constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kF16:
      return "float16";
    default:
      return "bfloat16";
  }
}

}  // namespace octavo::device
