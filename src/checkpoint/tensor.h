#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::checkpoint {

/// Element types a checkpoint file can hold that we can read.
enum class TensorType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  // Of safetensors alone: what quantised weights are packed in.
  kI8,
  kU8,
  kI32,
  kF8_E4M3,
  kF8_E5M2,
  kF8_E8M0,
};
/// Spelling of ggml and safetensors: "BF16", "Q4_1".
std::string_view name_of(TensorType type);
/// Bytes that a tensor of `shape` takes. nullopt when a dimension is negative, the product does not
/// fit 64 bits, or a quantised row is no whole number of its blocks of 32 or 256.
std::optional<uint64_t> size_bytes_of(TensorType type, const std::vector<int64_t>& shape);

/// One tensor of a mapped file. `data` stays valid as long as the Checkpoint; it holds exactly
/// size_bytes_of(type, shape) bytes and may lie at any address: safetensors promises no alignment,
/// so elements are read with memcpy or unaligned loads.
struct Tensor {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;  // outermost first: [out_features, in_features]
  std::span<const std::byte> data;
  std::string file;     // for messages
  uint64_t offset = 0;  // of data in the file
};

}  // namespace octavo::checkpoint
