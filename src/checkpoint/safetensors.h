#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/tensor.h"

namespace octavo::checkpoint {

/// What one file holds. Tensors come in the order of their offsets and point into the file.
struct SafetensorsContents {
  std::vector<Tensor> tensors;
  std::vector<std::string> left_out;  // names of I64 and BOOL tensors
};

/// Parses one safetensors file: u64 length, JSON header, data. dtypes F32, F16, BF16 are read; I64
/// and BOOL (position ids, masks that some exporters keep) are checked and left out; another dtype
/// is an error that names it. Every byte range equals dtype times shape, lies in the file and
/// overlaps no other. `name` is the file in errors. Source: the safetensors format description
/// (github.com/huggingface/safetensors).
Result<SafetensorsContents> parse_safetensors(std::span<const std::byte> file,
                                              std::string_view name);

}  // namespace octavo::checkpoint
