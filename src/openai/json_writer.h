#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace octavo::openai {

/// Appends compact JSON with raw UTF-8 to a string; commas come by themselves. Cheap enough for
/// every chunk of a stream. The caller keeps the brackets balanced.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  /// Invalid UTF-8 is replaced by U+FFFD.
  JsonWriter& string(std::string_view text);
  JsonWriter& integer(int64_t value);
  /// Shortest form that reads back as the same float; not finite becomes -9999.0 (JSON has no
  /// infinity).
  JsonWriter& number(float value);
  JsonWriter& boolean(bool value);
  JsonWriter& null();
  JsonWriter& raw(std::string_view json);
  /// A key after `raw` text that left an object open, with members.
  JsonWriter& raw_key(std::string_view name) {
    first_ = false;
    return key(name);
  }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();
  std::string& out_;
  bool first_ = true;  // no comma before the next value
};

/// Valid UTF-8: each maximal part of an invalid sequence becomes U+FFFD (Unicode 15, section 3.9).
std::string to_valid_utf8(std::string_view bytes);
/// Characters (code points) of a valid text.
int64_t num_characters(std::string_view text);

}  // namespace octavo::openai
