#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace octavo::config {

/// A JSON list of strings; the error says what is wrong with `text`.
Result<std::vector<std::string>> parse_json_strings(std::string_view text);

/// The JSON object that a flag such as --compilation-config collects.
/// Bare human integers (25.6k) are read inside it. At most 64 levels.
class JsonValue {
 public:
  JsonValue();
  ~JsonValue();
  JsonValue(JsonValue&&) noexcept;
  JsonValue& operator=(JsonValue&&) noexcept;

  /// The whole value; anything but an object is an error.
  Status replace(std::string_view text);
  /// The member at `dotted` ("a.b"). `word` is read as JSON, then as a human integer, then as text.
  /// Objects merge, lists append to lists, all else replaces. `appends`: `word` is a list "a,b".
  Status merge(std::string_view dotted, std::string_view word, bool appends);
  /// JSON text; keys sorted.
  std::string text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo::config
