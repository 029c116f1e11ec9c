#include "config/json_value.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "config/value.h"

namespace octavo::config {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 64;

Error invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

/// Levels of brackets outside strings, so that parsing stays shallow.
int depth_of(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '"')
        in_string = false;
    } else if (text[i] == '"') {
      in_string = true;
    } else if (text[i] == '{' || text[i] == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (text[i] == '}' || text[i] == ']') {
      --depth;
    }
  }
  return deepest;
}

/// Replaces 25.6k by 25600 outside strings; anything else stays.
std::string expand_human_integers(std::string_view text) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (in_string || c == '"') {
      if (c == '"') in_string = !in_string;
      const size_t length = in_string && c == '\\' ? 2 : 1;
      out += text.substr(i, length);
      i += length;
      continue;
    }
    const size_t end = std::min(text.find_first_not_of("0123456789.kmgtKMGT", i), text.size());
    const std::string_view word = text.substr(i, end - i);
    const auto number = word.size() > 1 && std::isdigit(static_cast<unsigned char>(word[0]))
                            ? parse_human_integer(word)
                            : Result<int64_t>(Error{});
    if (number.ok()) {
      out += std::to_string(*number);
    } else {
      out += word.empty() ? text.substr(i, 1) : word;
    }
    i += std::max<size_t>(word.size(), 1);
  }
  return out;
}

std::optional<Json> parse(std::string_view text) {
  if (depth_of(text) > kMaxDepth) return std::nullopt;
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) json = Json::parse(expand_human_integers(text), nullptr, false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

Json read_word(std::string_view word) {
  if (auto json = parse(word)) return std::move(*json);
  if (const auto number = parse_human_integer(word); number.ok()) return *number;
  return std::string(word);
}

// Recursion ends with the shallower of two values of at most 2 * kMaxDepth levels.
void merge_into(Json& target, Json value) {
  if (target.is_object() && value.is_object()) {
    for (auto& [key, member] : value.items()) {
      if (target.contains(key)) {
        merge_into(target[key], std::move(member));
      } else {
        target[key] = std::move(member);
      }
    }
  } else if (target.is_array() && value.is_array()) {
    for (Json& element : value) target.push_back(std::move(element));
  } else {
    target = std::move(value);
  }
}

}  // namespace

Result<std::vector<std::string>> parse_json_strings(std::string_view text) {
  const auto json = parse(text);
  if (!json || !json->is_array()) {
    return invalid(fmt::format("'{}' is no JSON list of strings, such as '[\"a\", \"b\"]'", text));
  }
  std::vector<std::string> strings;
  for (const Json& element : *json) {
    if (!element.is_string()) return invalid(fmt::format("'{}' is no list of strings", text));
    strings.push_back(element.get<std::string>());
  }
  return strings;
}

struct JsonValue::Impl {
  Json json = Json::object();
};

JsonValue::JsonValue() : impl_(std::make_unique<Impl>()) {}
JsonValue::~JsonValue() = default;
JsonValue::JsonValue(JsonValue&&) noexcept = default;
JsonValue& JsonValue::operator=(JsonValue&&) noexcept = default;

Status JsonValue::replace(std::string_view text) {
  auto json = parse(text);
  if (!json || !json->is_object()) {
    return invalid(fmt::format("Value {} cannot be converted to a JSON object", text));
  }
  impl_->json = std::move(*json);
  return {};
}

Status JsonValue::merge(std::string_view dotted, std::string_view word, bool appends) {
  Json value = read_word(word);
  if (appends && !value.is_array()) {
    Json list = Json::array();
    for (size_t begin = 0; begin <= word.size();) {
      const size_t comma = std::min(word.find(',', begin), word.size());
      list.push_back(read_word(word.substr(begin, comma - begin)));
      begin = comma + 1;
    }
    value = std::move(list);
  }
  if (dotted.empty() || dotted.front() == '.' || dotted.find("..") != std::string_view::npos ||
      dotted.back() == '.') {
    return invalid("a dotted key has an empty part");
  }
  for (int depth = 0; !dotted.empty(); ++depth) {
    if (depth >= kMaxDepth) return invalid("keys are nested too deep");
    const size_t dot = dotted.rfind('.');
    const std::string key(dotted.substr(dot == dotted.npos ? 0 : dot + 1));
    Json object = Json::object();
    object[key] = std::move(value);
    value = std::move(object);
    dotted = dot == dotted.npos ? std::string_view() : dotted.substr(0, dot);
  }
  merge_into(impl_->json, std::move(value));
  return {};
}

std::string JsonValue::text() const {
  return impl_->json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace octavo::config
