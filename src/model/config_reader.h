#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "checkpoint/metadata.h"

namespace octavo::model {

/// Typed access to one object of a config.json or of GGUF metadata. A value of the wrong type is an
/// error that names file and key; an absent or null one takes the default, or is an error where
/// there is none. Borrows the metadata.
class ConfigReader {
 public:
  /// `prefix` stands before every key, in look-ups when the metadata is flat (GGUF "llama.").
  ConfigReader(const checkpoint::Metadata& object, std::string file, std::string prefix = {})
      : object_(&object), file_(std::move(file)), prefix_(std::move(prefix)) {}

  const std::string& file() const { return file_; }
  bool has(std::string_view key) const { return find(key) != nullptr; }

  Result<int64_t> require_int(std::string_view key) const;
  Result<int64_t> get_int(std::string_view key, int64_t otherwise) const;
  Result<double> require_double(std::string_view key) const;
  Result<double> get_double(std::string_view key, double otherwise) const;
  Result<bool> get_bool(std::string_view key, bool otherwise) const;
  Result<std::string> get_string(std::string_view key, std::string otherwise) const;
  /// Array of strings; empty when absent.
  Result<std::vector<std::string>> get_strings(std::string_view key) const;
  /// An integer, or an array whose entries are all the same (GGUF per-layer values).
  Result<int64_t> get_uniform_int(std::string_view key, int64_t otherwise) const;

  /// The nested object `key`; nullopt when it is absent or null.
  Result<std::optional<ConfigReader>> get_object(std::string_view key) const;

  Error error(Code code, std::string_view key, std::string_view what) const;

 private:
  const checkpoint::Metadata* find(std::string_view key) const;

  const checkpoint::Metadata* object_;
  std::string file_;
  std::string prefix_;  // of the key in the object
  std::string outer_;   // "rope_scaling." in messages
};

}  // namespace octavo::model
