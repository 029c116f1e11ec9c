#include "checkpoint/metadata.h"

#include <cmath>

namespace octavo::checkpoint {
namespace {

// Both ends are exact in a double; 2^63 itself is out of range.
std::optional<int64_t> integral(double value) {
  if (!(value >= -0x1p63 && value < 0x1p63) || std::trunc(value) != value) return std::nullopt;
  return static_cast<int64_t>(value);
}

template <class T>
const T* pointer_alternative(const Metadata::Value& value) {
  const auto* held = std::get_if<std::shared_ptr<T>>(&value);
  return held == nullptr ? nullptr : held->get();
}

}  // namespace

const Metadata* Metadata::find(std::string_view key) const {
  const auto* object = pointer_alternative<MetadataObject>(value_);
  if (object == nullptr) return nullptr;
  const auto it = object->find(key);
  if (it == object->end() || it->second.is_null()) return nullptr;
  return &it->second;
}

std::optional<int64_t> Metadata::as_int() const {
  if (const auto* value = std::get_if<int64_t>(&value_)) return *value;
  if (const auto* value = std::get_if<double>(&value_)) return integral(*value);
  return std::nullopt;
}

std::optional<double> Metadata::as_double() const {
  if (const auto* value = std::get_if<int64_t>(&value_)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<double>(&value_)) return *value;
  return std::nullopt;
}

std::optional<bool> Metadata::as_bool() const {
  if (const auto* value = std::get_if<bool>(&value_)) return *value;
  return std::nullopt;
}

const std::string* Metadata::as_string() const { return std::get_if<std::string>(&value_); }

std::optional<std::vector<int64_t>> Metadata::as_ints() const {
  if (const auto one = as_int()) return std::vector<int64_t>{*one};
  if (const auto* compact = as_int32s()) {
    return std::vector<int64_t>(compact->begin(), compact->end());
  }
  const auto* array = pointer_alternative<MetadataArray>(value_);
  if (array == nullptr) return std::nullopt;
  std::vector<int64_t> ints;
  ints.reserve(array->size());
  for (const Metadata& element : *array) {
    const auto value = element.as_int();
    if (!value) return std::nullopt;
    ints.push_back(*value);
  }
  return ints;
}

const std::vector<std::string>* Metadata::as_strings() const {
  return pointer_alternative<std::vector<std::string>>(value_);
}

std::optional<std::vector<std::string>> Metadata::as_string_list() const {
  if (const auto* compact = as_strings()) return *compact;
  const auto* array = pointer_alternative<MetadataArray>(value_);
  if (array == nullptr) return std::nullopt;
  std::vector<std::string> strings;
  strings.reserve(array->size());
  for (const Metadata& element : *array) {
    const std::string* text = element.as_string();
    if (text == nullptr) return std::nullopt;
    strings.push_back(*text);
  }
  return strings;
}

const std::vector<int32_t>* Metadata::as_int32s() const {
  return pointer_alternative<std::vector<int32_t>>(value_);
}

const std::vector<float>* Metadata::as_floats() const {
  return pointer_alternative<std::vector<float>>(value_);
}

}  // namespace octavo::checkpoint
