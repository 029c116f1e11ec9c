#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace octavo::checkpoint {

class Metadata;
using MetadataArray = std::vector<Metadata>;
/// Insertion order is not kept; keys are unique (a duplicate key is a file error).
using MetadataObject = std::map<std::string, Metadata, std::less<>>;

/// Plain data as config.json or GGUF metadata hold it: null, bool, integer, double, string, array,
/// object. Long homogeneous GGUF arrays (tokens, merges, scores, types) keep their own compact
/// alternatives. Depth is limited when it is parsed; nothing here recurses on outside input.
class Metadata {
 public:
  using Value =
      std::variant<std::monostate, bool, int64_t, double, std::string,
                   std::shared_ptr<MetadataArray>, std::shared_ptr<MetadataObject>,
                   std::shared_ptr<std::vector<std::string>>, std::shared_ptr<std::vector<int32_t>>,
                   std::shared_ptr<std::vector<float>>>;
  Metadata() = default;
  explicit Metadata(Value value) : value_(std::move(value)) {}

  const Value& value() const { return value_; }
  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_object() const { return std::holds_alternative<std::shared_ptr<MetadataObject>>(value_); }

  /// Member of an object; nullptr when this is no object, the key is missing, or its value is null.
  const Metadata* find(std::string_view key) const;

  std::optional<int64_t> as_int() const;    // integer, or a double with an integral value
  std::optional<double> as_double() const;  // integer or double
  std::optional<bool> as_bool() const;
  const std::string* as_string() const;                 // nullptr when it is none
  std::optional<std::vector<int64_t>> as_ints() const;  // array of integers, or one integer
  const std::vector<std::string>* as_strings() const;   // GGUF string array
  std::optional<std::vector<std::string>> as_string_list() const;  // JSON array or GGUF array
  const std::vector<int32_t>* as_int32s() const;                   // GGUF int array
  const std::vector<float>* as_floats() const;                     // GGUF float array

 private:
  Value value_;
};

/// Parses JSON text into Metadata. Limits: 128 levels, 64 MiB. `what` names the file in errors,
/// which give the byte offset.
Result<Metadata> parse_json_metadata(std::string_view text, std::string_view what);

}  // namespace octavo::checkpoint
