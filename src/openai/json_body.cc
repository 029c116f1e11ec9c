#include "openai/json_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace octavo::openai {
namespace {

using simdjson::dom::element_type;

constexpr int64_t kMaxErrorLines = 10;
constexpr size_t kMaxErrorBytes = 2000;  // the whole answer stays below 4 KiB, escapes included
constexpr size_t kMaxEcho = 80;
constexpr size_t kMaxTemplateKeys = 1000;

/// Counts the bytes up to the first error; simdjson's DOM does not tell.
struct ErrorPosition final : nlohmann::json_sax<nlohmann::json> {
  size_t position = 0;
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t at, const std::string&, const nlohmann::json::exception&) override {
    position = at;
    return false;
  }
};

Error syntax_error(std::string_view text, simdjson::error_code code, int64_t max_depth) {
  if (code == simdjson::DEPTH_ERROR) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("1 validation error:\n  body: JSON is nested deeper than {} levels", max_depth),
        "body"};
  }
  if (code == simdjson::UTF8_ERROR) {
    return Error{Code::kInvalidArgument, "1 validation error:\n  body: not valid UTF-8", "body"};
  }
  // The slow parser only looks at what a person may have typed.
  constexpr size_t kMaxSearch = 1 << 20;
  ErrorPosition found;
  if (text.size() <= kMaxSearch) {
    nlohmann::json::sax_parse(text.begin(), text.end(), &found);
  }
  const size_t offset = found.position > 0 ? found.position - 1 : 0;
  return Error{Code::kInvalidArgument,
               fmt::format("1 validation error:\n  body.{}: JSON decode error: {}", offset,
                           simdjson::error_message(code)),
               fmt::format("body.{}", offset)};
}

Error duplicate_key(std::string_view key) {
  const std::string name = shorten(key, kMaxEcho);
  return Error{
      Code::kInvalidArgument,
      fmt::format("1 validation error:\n  body: key \"{}\" occurs twice in one object", name),
      fmt::format("body.{}", name)};
}

/// The name of a key that an object has twice, or nothing.
std::optional<std::string_view> find_duplicate(simdjson::dom::object object,
                                               std::vector<std::string_view>& keys) {
  keys.clear();
  for (const auto field : object) keys.push_back(field.key);
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice == keys.end()) return std::nullopt;
  return *twice;
}

Status check_duplicates(JsonElement root) {
  std::vector<JsonElement> open = {root};
  std::vector<std::string_view> keys;
  const auto push = [&](JsonElement child) {
    if (child.is_object() || child.is_array()) open.push_back(child);
  };
  while (!open.empty()) {
    const JsonElement element = open.back();
    open.pop_back();
    if (element.is_object()) {
      const simdjson::dom::object object = object_of(element);
      if (const auto key = find_duplicate(object, keys)) return duplicate_key(*key);
      for (const auto field : object) push(field.value);
    } else if (element.is_array()) {
      for (const JsonElement child : array_of(element)) push(child);
    }
  }
  return {};
}

/// Strings by their length alone: an error may be logged or shown, a prompt may not (promise P6).
std::string describe(JsonElement element) {
  switch (element.type()) {
    case element_type::ARRAY: {
      const size_t size = array_of(element).size();
      return fmt::format("a list of {}{}", size, size >= 0xFFFFFF ? " or more" : "");
    }
    case element_type::OBJECT:
      return fmt::format("an object of {}", object_of(element).size());
    case element_type::STRING:
      return fmt::format("a string of {} bytes", string_of(element).size());
    case element_type::INT64:
      return fmt::format("{}", int64_of(element));
    case element_type::UINT64:
      return fmt::format("{}", uint64_of(element));
    case element_type::DOUBLE:
      return fmt::format("{}", double_of(element));
    case element_type::BOOL:
      return bool_of(element) ? "true" : "false";
    case element_type::NULL_VALUE:
      return "null";
  }
  return "?";
}

}  // namespace

std::string shorten(std::string_view text, size_t max_bytes) {
  bool cut = false;
  if (text.size() > max_bytes) {
    size_t end = max_bytes;
    while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end);
    cut = true;
  }
  std::string out(text);
  for (char& c : out)
    if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) c = '?';
  if (cut) out += "…";
  return out;
}

Result<JsonBody> JsonBody::parse(std::string_view text, int64_t max_depth) {
  JsonBody body;
  body.parser_ = std::make_unique<simdjson::dom::parser>();
  auto error =
      body.parser_->allocate(std::max<size_t>(text.size(), 64),
                             static_cast<size_t>(std::clamp<int64_t>(max_depth, 1, 1024)) + 1);
  if (error) return Error{Code::kInternal, "Out of memory for the request body"};
  error = body.parser_->parse(text.data(), text.size()).get(body.root_);
  if (error) return syntax_error(text, error, max_depth);
  OCTAVO_TRY(check_duplicates(body.root_));
  if (!body.root_.is_object()) {
    RequestErrors errors;
    errors.schema("", "Input should be an object", body.root_);
    OCTAVO_TRY(errors.status());
  }
  return body;
}

void RequestErrors::schema(const std::string& path, std::string_view expected) {
  const std::string where = path.empty() ? "body" : "body." + shorten(path, kMaxEcho);
  if (num_schema_++ == 0) first_path_ = where;
  std::string line = fmt::format("\n  {}: {}", where, expected);
  if (num_schema_ <= kMaxErrorLines && lines_.size() + line.size() <= kMaxErrorBytes)
    lines_ += line;
}

void RequestErrors::schema(const std::string& path, std::string_view expected, JsonElement got) {
  if (num_schema_ >= kMaxErrorLines) {
    ++num_schema_;
    return;
  }
  schema(path, fmt::format("{} (got {})", expected, describe(got)));
}

void RequestErrors::schema_value(const std::string& path, std::string_view expected,
                                 JsonElement got) {
  if (!got.is_string()) return schema(path, expected, got);
  schema(path, fmt::format("{} (got '{}')", expected, shorten(string_of(got), kMaxEcho)));
}

void RequestErrors::semantic(std::string param, std::string message) {
  if (!semantic_) semantic_ = Error{Code::kInvalidArgument, std::move(message), std::move(param)};
}

void RequestErrors::range(const std::string& param, std::string_view rule, std::string_view value) {
  semantic(param, fmt::format("{} {} (parameter={}, value={})", param, rule, param,
                              shorten(value, kMaxEcho)));
}

Status RequestErrors::status() const {
  if (num_schema_ > 0) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("{} validation error{}:{}", num_schema_, num_schema_ == 1 ? "" : "s", lines_),
        first_path_};
  }
  if (semantic_) return *semantic_;
  return {};
}

Fields::Fields(simdjson::dom::object object, std::string path, RequestErrors& errors)
    : path_(std::move(path)), errors_(errors) {
  for (const auto field : object) fields_.emplace_back(field.key, field.value);
  std::sort(fields_.begin(), fields_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
}

std::string Fields::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

std::optional<JsonElement> Fields::find(std::string_view name) const {
  const auto at = std::lower_bound(fields_.begin(), fields_.end(), name,
                                   [](const auto& f, std::string_view n) { return f.first < n; });
  if (at == fields_.end() || at->first != name || at->second.is_null()) return std::nullopt;
  return at->second;
}

std::optional<bool> Fields::boolean(std::string_view name) const {
  const auto element = find(name);
  if (!element) return std::nullopt;
  if (element->is_bool()) return bool_of(*element);
  errors_.schema_value(path_of(name), "Input should be true or false", *element);
  return std::nullopt;
}

std::optional<int64_t> as_integer(JsonElement element) {
  if (element.is_int64()) return int64_of(element);
  if (!element.is_double()) return std::nullopt;
  const double value = double_of(element);
  // Beyond 2^53 a double no longer says which integer was meant.
  if (value != std::floor(value) || std::abs(value) > 9007199254740992.0) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::optional<int64_t> Fields::integer(std::string_view name) const {
  const auto element = find(name);
  if (!element) return std::nullopt;
  const auto value = as_integer(*element);
  if (!value) errors_.schema_value(path_of(name), "Input should be a 64-bit integer", *element);
  return value;
}

std::optional<double> Fields::number(std::string_view name) const {
  const auto element = find(name);
  if (!element) return std::nullopt;
  if (element->is_number()) return double_of(*element);
  errors_.schema_value(path_of(name), "Input should be a number", *element);
  return std::nullopt;
}

std::optional<std::string> Fields::string(std::string_view name) const {
  const auto element = find(name);
  if (!element) return std::nullopt;
  if (element->is_string()) return std::string(string_of(*element));
  errors_.schema(path_of(name), "Input should be a string", *element);
  return std::nullopt;
}

std::optional<simdjson::dom::object> Fields::object(std::string_view name) const {
  const auto element = find(name);
  if (!element) return std::nullopt;
  if (element->is_object()) return object_of(*element);
  errors_.schema(path_of(name), "Input should be an object", *element);
  return std::nullopt;
}

std::optional<simdjson::dom::array> Fields::array(std::string_view name) const {
  const auto element = find(name);
  if (!element) return std::nullopt;
  if (element->is_array()) return array_of(*element);
  errors_.schema(path_of(name), "Input should be a list", *element);
  return std::nullopt;
}

std::optional<std::vector<int64_t>> Fields::integers(std::string_view name) const {
  const auto list = array(name);
  if (!list) return std::nullopt;
  std::vector<int64_t> out;
  for (const JsonElement element : *list) {
    if (!element.is_int64()) {
      errors_.schema(fmt::format("{}.{}", path_of(name), out.size()), "Input should be an integer",
                     element);
      return std::nullopt;
    }
    out.push_back(int64_of(element));
  }
  return out;
}

// Recursion is bounded by the depth limit of JsonBody::parse.
Result<nlohmann::ordered_json> to_ordered_json(JsonElement element, std::string_view param) {
  using Json = nlohmann::ordered_json;
  switch (element.type()) {
    case element_type::ARRAY: {
      Json out = Json::array();
      for (const JsonElement child : array_of(element)) {
        OCTAVO_TRY(Json value, to_ordered_json(child, param));
        out.push_back(std::move(value));
      }
      return out;
    }
    case element_type::OBJECT: {
      Json out = Json::object();
      size_t num_keys = 0;
      for (const auto field : object_of(element)) {
        if (++num_keys > kMaxTemplateKeys) {
          return Error{Code::kInvalidArgument,
                       fmt::format("{}: an object has more than {} keys", param, kMaxTemplateKeys),
                       std::string(param)};
        }
        OCTAVO_TRY(Json value, to_ordered_json(field.value, param));
        out.emplace(std::string(field.key), std::move(value));
      }
      return out;
    }
    case element_type::STRING:
      return Json(std::string(string_of(element)));
    case element_type::INT64:
      return Json(int64_of(element));
    case element_type::UINT64:
      return Json(uint64_of(element));
    case element_type::DOUBLE:
      return Json(double_of(element));
    case element_type::BOOL:
      return Json(bool_of(element));
    case element_type::NULL_VALUE:
      return Json();
  }
  return Json();
}

}  // namespace octavo::openai
