#include "model/config_reader.h"

#include <fmt/format.h>

namespace octavo::model {

const checkpoint::Metadata* ConfigReader::find(std::string_view key) const {
  if (prefix_.empty()) return object_->find(key);
  return object_->find(prefix_ + std::string(key));
}

Error ConfigReader::error(Code code, std::string_view key, std::string_view what) const {
  return Error{code, fmt::format("{}: {}{}{} {}", file_, outer_, prefix_, key, what)};
}

Result<int64_t> ConfigReader::require_int(std::string_view key) const {
  if (!has(key)) return error(Code::kInvalidArgument, key, "is missing");
  return get_int(key, 0);
}

Result<int64_t> ConfigReader::get_int(std::string_view key, int64_t otherwise) const {
  const checkpoint::Metadata* value = find(key);
  if (value == nullptr) return otherwise;
  const std::optional<int64_t> number = value->as_int();
  if (!number) return error(Code::kInvalidArgument, key, "is not an integer");
  return *number;
}

Result<double> ConfigReader::require_double(std::string_view key) const {
  if (!has(key)) return error(Code::kInvalidArgument, key, "is missing");
  return get_double(key, 0.0);
}

Result<double> ConfigReader::get_double(std::string_view key, double otherwise) const {
  const checkpoint::Metadata* value = find(key);
  if (value == nullptr) return otherwise;
  const std::optional<double> number = value->as_double();
  if (!number) return error(Code::kInvalidArgument, key, "is not a number");
  return *number;
}

Result<bool> ConfigReader::get_bool(std::string_view key, bool otherwise) const {
  const checkpoint::Metadata* value = find(key);
  if (value == nullptr) return otherwise;
  const std::optional<bool> flag = value->as_bool();
  if (!flag) return error(Code::kInvalidArgument, key, "is neither true nor false");
  return *flag;
}

Result<std::string> ConfigReader::get_string(std::string_view key, std::string otherwise) const {
  const checkpoint::Metadata* value = find(key);
  if (value == nullptr) return otherwise;
  const std::string* text = value->as_string();
  if (text == nullptr) return error(Code::kInvalidArgument, key, "is not a string");
  return *text;
}

Result<std::vector<std::string>> ConfigReader::get_strings(std::string_view key) const {
  const checkpoint::Metadata* value = find(key);
  if (value == nullptr) return std::vector<std::string>{};
  std::optional<std::vector<std::string>> list = value->as_string_list();
  if (!list) return error(Code::kInvalidArgument, key, "is not a list of strings");
  return std::move(*list);
}

Result<int64_t> ConfigReader::get_uniform_int(std::string_view key, int64_t otherwise) const {
  const checkpoint::Metadata* value = find(key);
  if (value == nullptr) return otherwise;
  const std::optional<std::vector<int64_t>> list = value->as_ints();
  if (!list || list->empty()) return error(Code::kInvalidArgument, key, "is not an integer");
  for (const int64_t entry : *list) {
    if (entry != list->front()) {
      return error(Code::kUnsupported, key, "differs between layers, which octavo cannot run yet");
    }
  }
  return list->front();
}

Result<std::optional<ConfigReader>> ConfigReader::get_object(std::string_view key) const {
  const checkpoint::Metadata* value = find(key);
  if (value == nullptr) return std::optional<ConfigReader>{};
  if (!value->is_object()) return error(Code::kInvalidArgument, key, "is not an object");
  ConfigReader inner(*value, file_);
  inner.outer_ = fmt::format("{}{}{}.", outer_, prefix_, key);
  return std::optional<ConfigReader>(std::move(inner));
}

}  // namespace octavo::model
