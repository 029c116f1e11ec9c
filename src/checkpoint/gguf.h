#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/metadata.h"
#include "checkpoint/tensor.h"

namespace octavo::checkpoint {

/// What a GGUF file says. Tensors are in file order and point into the bytes it was parsed from.
struct GgufContents {
  Metadata metadata;  // one object, keys as in the file: "llama.block_count"
  std::vector<Tensor> tensors;
};

/// Parses GGUF version 2 or 3, little-endian. `with_tensors` false stops after the metadata.
/// Every length, count, offset and shape is checked against `file`; tensors neither overlap nor
/// leave it. `name` is the file in errors, which add key or tensor and the byte offset.
/// An unsigned integer beyond int64 becomes a double. Arrays of strings, of f32, and of integers
/// that fit int32 are stored compactly.
/// Source: the GGUF specification (ggml, docs/gguf.md); block types of ggml-common.h.
Result<GgufContents> parse_gguf(std::span<const std::byte> file, std::string_view name,
                                bool with_tensors);

/// True when `file` starts with the four bytes of the format.
bool has_gguf_magic(std::span<const std::byte> file);

}  // namespace octavo::checkpoint
