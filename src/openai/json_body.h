#pragma once

#include <simdjson.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace octavo::openai {

using JsonElement = simdjson::dom::element;

// Values of elements whose type has been checked. (simdjson's own `value_unsafe` returns a
// reference into a temporary.)
template <class T>
T value_of(JsonElement element) {
  T value{};
  if (element.get<T>().get(value) != simdjson::SUCCESS) return T{};
  return value;
}
inline simdjson::dom::array array_of(JsonElement e) { return value_of<simdjson::dom::array>(e); }
inline simdjson::dom::object object_of(JsonElement e) { return value_of<simdjson::dom::object>(e); }
inline std::string_view string_of(JsonElement e) { return value_of<std::string_view>(e); }
inline bool bool_of(JsonElement e) { return value_of<bool>(e); }
inline int64_t int64_of(JsonElement e) { return value_of<int64_t>(e); }
inline uint64_t uint64_of(JsonElement e) { return value_of<uint64_t>(e); }
inline double double_of(JsonElement e) { return value_of<double>(e); }

/// A parsed request body. Elements point into it.
class JsonBody {
 public:
  /// Strict: valid UTF-8, at most `max_depth` levels, and no key twice in any object, escaped or
  /// not. Errors are kInvalidArgument with param "body" or "body.<offset or path>".
  static Result<JsonBody> parse(std::string_view text, int64_t max_depth);
  JsonElement root() const { return root_; }

 private:
  std::unique_ptr<simdjson::dom::parser> parser_;
  JsonElement root_;
};

/// What is wrong with a request: all schema errors, and the first semantic one.
class RequestErrors {
 public:
  /// Wrong type, unknown enum, missing field. `path` without "body.".
  void schema(const std::string& path, std::string_view expected);
  void schema(const std::string& path, std::string_view expected, JsonElement got);
  /// The same for fields that hold no text of a user (numbers, enums): a string is quoted.
  void schema_value(const std::string& path, std::string_view expected, JsonElement got);
  /// A value that the type allows and the rules do not.
  void semantic(std::string param, std::string message);
  /// The same with " (parameter=…, value=…)" at its end.
  void range(const std::string& param, std::string_view rule, std::string_view value);
  /// Schema errors come before semantic ones.
  Status status() const;

 private:
  int64_t num_schema_ = 0;
  std::string lines_;
  std::string first_path_;
  std::optional<Error> semantic_;
};

/// Typed access to the fields of one object. Getters give nothing for absent and null fields; a
/// wrong type is noted in `errors` and gives nothing too.
class Fields {
 public:
  Fields(simdjson::dom::object object, std::string path, RequestErrors& errors);

  /// The field, unless absent or null.
  std::optional<JsonElement> find(std::string_view name) const;
  std::optional<bool> boolean(std::string_view name) const;
  /// Whole numbers of 64 bits; 5.0 counts as 5.
  std::optional<int64_t> integer(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  std::optional<std::string> string(std::string_view name) const;
  std::optional<simdjson::dom::object> object(std::string_view name) const;
  std::optional<simdjson::dom::array> array(std::string_view name) const;
  std::optional<std::vector<int64_t>> integers(std::string_view name) const;
  std::string path_of(std::string_view name) const;
  RequestErrors& errors() const { return errors_; }
  const std::vector<std::pair<std::string_view, JsonElement>>& all() const { return fields_; }

 private:
  std::vector<std::pair<std::string_view, JsonElement>> fields_;  // sorted by name
  std::string path_;
  RequestErrors& errors_;
};

/// A whole number, 5.0 included.
std::optional<int64_t> as_integer(JsonElement element);

/// Copies outside JSON for the template. Objects of more than 1,000 keys are refused: ordered_json
/// is quadratic in them.
Result<nlohmann::ordered_json> to_ordered_json(JsonElement element, std::string_view param);

/// `text` cut to `max_bytes` at a character, "…" in place of the rest, control characters replaced.
std::string shorten(std::string_view text, size_t max_bytes);

}  // namespace octavo::openai
