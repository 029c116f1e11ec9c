#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/metadata.h"
#include "checkpoint/tensor.h"

namespace octavo::checkpoint {

enum class LoadFormat { kAuto, kSafetensors, kGguf, kDummy };

/// A model on disk: an HF directory or a GGUF file, mapped, as plain data. Opening checks every
/// length, offset and shape against the file; nothing later can read outside it. Errors name file,
/// tensor and offset.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  /// Opens `path` (directory or .gguf file). kDummy reads config and tokenizer only.
  static Result<std::unique_ptr<Checkpoint>> open(const std::string& path, LoadFormat format);

  virtual std::string_view path() const = 0;
  virtual bool is_gguf() const = 0;
  virtual bool has_weights() const = 0;

  /// config.json, or the GGUF metadata block ("llama.block_count" and so on).
  virtual const Metadata& config() const = 0;
  /// generation_config.json; empty when there is none (always for GGUF).
  virtual const Metadata& generation_config() const = 0;

  /// The tensor, or nullptr. Valid as long as the checkpoint.
  virtual const Tensor* find(std::string_view name) const = 0;
  virtual const std::vector<Tensor>& tensors() const = 0;

  /// Raw text of a file of an HF directory (tokenizer.json, tokenizer_config.json,
  /// chat_template.jinja); nullopt when there is no such file. Always nullopt for GGUF.
  virtual Result<std::optional<std::string>> read_file(std::string_view name) const = 0;

  /// Tells the kernel that the weights have been packed and their pages may go.
  virtual void drop_pages() const = 0;
};

}  // namespace octavo::checkpoint
