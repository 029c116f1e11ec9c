#pragma once

#include <fmt/format.h>
#include <simdjson.h>

#include <string>
#include <string_view>
#include <type_traits>

#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"

// Reading the components of a tokenizer.json: private to tokenizer_json.cc and
// json_components.cc, because simdjson's header is large.
namespace octavo::tokenizer {

using JsonElement = simdjson::dom::element;
using JsonObject = simdjson::dom::object;
using JsonArray = simdjson::dom::array;

/// Where a value stands, for messages: "file: model.vocab".
struct JsonPlace {
  std::string_view path;
  std::string component;

  Error error(Code code, std::string_view what) const {
    return {code, fmt::format("{}: {}: {}", path, component, what)};
  }
  Error invalid(std::string_view what) const { return error(Code::kInvalidArgument, what); }
  Error unsupported(std::string_view what) const {
    return error(Code::kUnsupported, fmt::format("{} is not supported", what));
  }
  JsonPlace operator/(std::string_view name) const {
    return {path, component.empty() ? std::string(name) : fmt::format("{}.{}", component, name)};
  }
};

/// The member `key`; null when it is missing or the JSON value is null.
inline bool find_member(const JsonObject& object, std::string_view key, JsonElement& value) {
  return object.at_key(key).get(value) == simdjson::SUCCESS && !value.is_null();
}

/// The member as a T (bool, number, string), `fallback` when missing or null, an error for another
/// type.
template <class T>
requires(!std::is_same_v<T, JsonObject> &&
         !std::is_same_v<T, JsonArray>) Result<T> get_or(const JsonObject& object, const char* key,
                                                         T fallback, const JsonPlace& place) {
  JsonElement element;
  if (!find_member(object, key, element)) return fallback;
  T value{};
  if (element.get(value) != simdjson::SUCCESS) return (place / key).invalid("has the wrong type");
  return value;
}

/// The member as a JSON object or array. A default-made one of simdjson may not even be read, so
/// there is no fallback: missing is an error.
template <class T>
Result<T> container_at(const JsonObject& object, const char* key, const JsonPlace& place) {
  JsonElement element;
  if (!find_member(object, key, element)) return (place / key).invalid("is missing");
  T value;
  if (element.get(value) != simdjson::SUCCESS) return (place / key).invalid("has the wrong type");
  return value;
}

/// The type of a component such as {"type": "Split", ...}.
Result<std::string_view> component_type(const JsonElement& element, const JsonPlace& place,
                                        JsonObject& object);

/// Calls `leaf(type, object, place)` for a component or, in order, for all parts of a (nested)
/// Sequence, whose parts are in `list_key`. Nesting and the number of parts are limited.
Status for_each_component(
    const JsonElement& element, const char* list_key, const JsonPlace& place,
    const std::function<Status(std::string_view, const JsonObject&, const JsonPlace&)>& leaf,
    int depth = 0);

Result<Normalizer> parse_normalizer(const JsonElement& element, const JsonPlace& place);
/// Needs a ByteLevel part: text without it would not be bytes to the model.
Result<std::vector<PreTokenizer::Step>> parse_pre_tokenizer(const JsonElement& element,
                                                            const JsonPlace& place);
Status check_decoder(const JsonElement& element, const JsonPlace& place);

/// A step that splits at a regular expression, by a Scanner when it is a known one.
Result<SplitStep> regex_step(std::string_view pattern, SplitBehavior behavior, bool invert);

}  // namespace octavo::tokenizer
