#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/tensor.h"

namespace octavo::checkpoint {

/// Parses one safetensors file: u64 length, JSON header, data. Tensors come in the order of their
/// offsets and point into `file`. dtypes F32, F16, BF16 are read; I64 and BOOL (position ids, masks
/// that some exporters keep) are checked and left out; another dtype is an error that names it.
/// Every byte range equals dtype times shape, lies in the file and overlaps no other.
/// `name` is the file in errors.
/// Source: the safetensors format description (github.com/huggingface/safetensors).
Result<std::vector<Tensor>> parse_safetensors(std::span<const std::byte> file,
                                              std::string_view name);

}  // namespace octavo::checkpoint
