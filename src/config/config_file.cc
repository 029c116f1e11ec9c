#include "config/config_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "config/arguments.h"
#include "config/flags.h"

namespace octavo::config {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr int kMaxDepth = 32;
constexpr int kMaxNodes = 100'000;

Error invalid(const std::string& path, std::string_view why) {
  return {Code::kInvalidArgument, fmt::format("config file {}: {}", path, why)};
}

/// Plain scalars as PyYAML reads them; a quoted scalar is text.
bool is_plain(const YAML::Node& node) { return node.Tag() != "!"; }
bool is_true(const YAML::Node& node) {
  const std::string& s = node.Scalar();
  return is_plain(node) && (s == "true" || s == "True" || s == "TRUE" || s == "yes" || s == "on");
}
bool is_false(const YAML::Node& node) {
  const std::string& s = node.Scalar();
  return is_plain(node) &&
         (s == "false" || s == "False" || s == "FALSE" || s == "no" || s == "off");
}

class Converter {
 public:
  explicit Converter(const std::string& path) : path_(path) {}

  Result<ConfigFile> convert(const YAML::Node& root) {
    ConfigFile file;
    if (root.IsNull()) return file;
    if (!root.IsMap()) return invalid(path_, "is no map of flags");
    for (const auto& item : root) {
      if (!item.first.IsScalar()) return invalid(path_, "has a key that is no text");
      std::string key = item.first.Scalar();
      std::replace(key.begin(), key.end(), '_', '-');
      if (key == "config") return invalid(path_, "may not name another config file");
      if (key == "model" || key == "model-tag") {
        if (!item.second.IsScalar()) return invalid(path_, "model is no text");
        file.model = item.second.Scalar();
        continue;
      }
      OCTAVO_TRY(add(key, item.second, file.words));
    }
    return file;
  }

 private:
  Status add(const std::string& key, const YAML::Node& node, std::vector<std::string>& words) {
    if (node.IsMap()) {
      OCTAVO_TRY(const Json json, to_json(node, 1));
      words.push_back("--" + key);
      words.push_back(json.dump(-1, ' ', false, Json::error_handler_t::replace));
    } else if (node.IsSequence()) {
      OCTAVO_TRY(add_list(key, node, words));
    } else if (node.IsNull()) {
      words.push_back("--" + key + "=None");
    } else if (is_true(node)) {
      words.push_back("--" + key);
    } else if (is_false(node)) {
      const Flag* flag = find_flag(key);
      if (flag != nullptr && has_negation(*flag)) words.push_back("--no-" + key);
    } else {
      words.push_back("--" + key + "=" + node.Scalar());
    }
    return {};
  }

  Status add_list(const std::string& key, const YAML::Node& node, std::vector<std::string>& words) {
    if (node.size() == 0) return {};
    const Flag* flag = find_flag(key);
    if (flag != nullptr && flag->kind == Kind::kJsonList) {
      OCTAVO_TRY(const Json json, to_json(node, 1));
      words.push_back("--" + key + "=" + json.dump(-1, ' ', false, Json::error_handler_t::replace));
      return {};
    }
    if (flag != nullptr && flag->kind == Kind::kRepeat) {
      for (const YAML::Node& element : node) {
        if (!element.IsScalar()) return invalid(path_, key + " is no list of words");
        words.push_back("--" + key + "=" + element.Scalar());
      }
      return {};
    }
    words.push_back("--" + key);
    for (const YAML::Node& element : node) {
      if (element.IsScalar()) {
        words.push_back(element.Scalar());
      } else {
        OCTAVO_TRY(const Json json, to_json(element, 1));
        words.push_back(json.dump(-1, ' ', false, Json::error_handler_t::replace));
      }
    }
    return {};
  }

  // Recursion ends at kMaxDepth; kMaxNodes stops aliases that multiply.
  Result<Json> to_json(const YAML::Node& node, int depth) {
    if (depth > kMaxDepth)
      return invalid(path_, fmt::format("nests deeper than {} levels", kMaxDepth));
    if (++num_nodes_ > kMaxNodes)
      return invalid(path_, fmt::format("has more than {} nodes", kMaxNodes));
    if (node.IsMap()) {
      Json object = Json::object();
      for (const auto& item : node) {
        if (!item.first.IsScalar()) return invalid(path_, "has a key that is no text");
        OCTAVO_TRY(object[item.first.Scalar()], to_json(item.second, depth + 1));
      }
      return object;
    }
    if (node.IsSequence()) {
      Json array = Json::array();
      for (const YAML::Node& element : node) {
        OCTAVO_TRY(Json value, to_json(element, depth + 1));
        array.push_back(std::move(value));
      }
      return array;
    }
    if (node.IsNull()) return Json();
    if (is_true(node)) return Json(true);
    if (is_false(node)) return Json(false);
    if (is_plain(node)) {
      const Json number = Json::parse(node.Scalar(), nullptr, false);
      if (number.is_number()) return number;
    }
    return Json(node.Scalar());
  }

  const std::string& path_;
  int num_nodes_ = 0;
};

}  // namespace

Result<ConfigFile> parse_config_file(const std::string& text, const std::string& path) {
  if (text.size() > kMaxFileBytes) {
    return invalid(path, fmt::format("is longer than {} bytes", kMaxFileBytes));
  }
  // yaml-cpp throws on malformed text and on misuse of a node.
  try {
    return Converter(path).convert(YAML::Load(text));
  } catch (const YAML::Exception& e) {
    return invalid(path, fmt::format("line {}: {}", e.mark.line + 1, e.msg));
  }
}

Result<ConfigFile> read_config_file(const std::string& path) {
  if (!path.ends_with(".yaml") && !path.ends_with(".yml")) {
    return invalid(path, "its name must end in .yaml or .yml");
  }
  std::error_code failure;
  if (!std::filesystem::is_regular_file(path, failure)) {
    return invalid(path, "there is no such file");
  }
  std::ifstream in(path, std::ios::binary);
  std::string text;
  for (char chunk[65536];
       text.size() <= kMaxFileBytes && in.read(chunk, sizeof chunk).gcount() > 0;) {
    text.append(chunk, static_cast<size_t>(in.gcount()));
  }
  if (in.bad() || !in.eof()) {
    if (text.size() <= kMaxFileBytes) return invalid(path, "cannot be read");
  }
  return parse_config_file(text, path);
}

}  // namespace octavo::config
