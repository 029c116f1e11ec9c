#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::checkpoint {

/// Element types a checkpoint file can hold that we can read.
enum class TensorType : uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1 };
std::string_view name_of(TensorType type);

/// One tensor of a mapped file. `data` stays valid as long as the Checkpoint.
struct Tensor {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;  // outermost first: [out_features, in_features]
  std::span<const std::byte> data;
  std::string file;     // for messages
  uint64_t offset = 0;  // of data in the file
};

}  // namespace octavo::checkpoint
