#include "bench/json_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

namespace octavo::bench {
namespace {

using Json = nlohmann::json;  // sorted keys: a file of many keys costs no more than n log n

constexpr size_t kMaxShown = 80;  // characters of a field's name in an error

Error unreadable(const std::string& path, const std::string& why) {
  return {Code::kInvalidArgument, fmt::format("{}: {}", path, why)};
}

/// Printable, one line, short.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMaxShown)) {
    out += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  }
  return text.size() > kMaxShown ? out + "..." : out;
}

Result<Json> parse_object(const std::string& path, std::string_view text, size_t line,
                          const JsonFileBounds& bounds) {
  const std::string where = line == 0 ? path : fmt::format("{}, line {}", path, line);
  std::string field;
  bool is_too_deep = false;
  const auto visit = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::key) field = value.get_ref<const std::string&>();
    if (depth > bounds.max_depth) is_too_deep = true;
    if (is_too_deep) return false;
    return bounds.keeps_lists || event != Json::parse_event_t::array_start;
  };
  Json value;
  try {
    value = Json::parse(text.begin(), text.end(), visit);
  } catch (const Json::parse_error& e) {
    return unreadable(where, field.empty() ? fmt::format("no JSON at byte {}", e.byte)
                                           : fmt::format("no JSON at byte {}, after field '{}'",
                                                         e.byte, shown(field)));
  } catch (const Json::exception&) {
    return unreadable(where, fmt::format("field '{}' is out of range", shown(field)));
  }
  if (is_too_deep) {
    return unreadable(where, fmt::format("field '{}' lies deeper than {} levels", shown(field),
                                         bounds.max_depth));
  }
  if (!value.is_object()) return unreadable(where, "no JSON object");
  return value;
}

/// The lines that are not blank, if the first is an object of its own and not the only one.
std::vector<std::string_view> object_lines(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) out.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (out.size() == 1) {
      const std::string_view first = out[0].substr(0, out[0].find_last_not_of(" \t\r") + 1);
      if (!first.starts_with('{') || !first.ends_with('}')) return {};
    }
  }
  return out;
}

}  // namespace

Result<std::vector<Json>> read_json_objects(const std::string& path, const JsonFileBounds& bounds) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return unreadable(path, "no such file");
  const auto size = std::filesystem::file_size(path, error);
  if (error) return unreadable(path, error.message());
  if (size > bounds.max_bytes) {
    return unreadable(path, fmt::format("{} bytes; at most {} are read", size, bounds.max_bytes));
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file) return unreadable(path, "cannot be read");
  const std::vector<std::string_view> lines = object_lines(text);
  std::vector<Json> out;
  if (lines.size() < 2) {
    OCTAVO_TRY(Json value, parse_object(path, text, 0, bounds));
    out.push_back(std::move(value));
    return out;
  }
  if (lines.size() > bounds.max_objects) {
    return unreadable(path, fmt::format("{} lines; at most {} objects are read", lines.size(),
                                        bounds.max_objects));
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    OCTAVO_TRY(Json value, parse_object(path, lines[i], i + 1, bounds));
    out.push_back(std::move(value));
  }
  return out;
}

}  // namespace octavo::bench
