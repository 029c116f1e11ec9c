#include "bench/param_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>

#include "bench/command_flags.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNameKey = "_benchmark_name";

Error invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

std::string underscored(std::string_view text) {
  std::string out(text);
  std::ranges::replace(out, '-', '_');
  return out;
}

Result<SweepItem> item_of(const Json& record, size_t index) {
  if (!record.is_object()) {
    return invalid(fmt::format("entry {} is not a map of parameters", index + 1));
  }
  SweepItem item;
  for (const auto& [key, value] : record.items()) {
    if (key != kNameKey) {
      if (key.empty())
        return invalid(fmt::format("entry {} has a parameter without name", index + 1));
      item.params[key] = value;
      continue;
    }
    if (!value.is_string() || value.get<std::string>().empty()) {
      return invalid(fmt::format("entry {}: {} must be a text", index + 1, kNameKey));
    }
    item.name = value.get<std::string>();
  }
  return item;
}

/// A part of a path that is one name.
std::string file_name(std::string text) {
  constexpr size_t kMost = 200;  // file systems allow 255 bytes
  for (size_t at = 0; (at = text.find("..", at)) != std::string::npos;) text.replace(at, 2, "__");
  for (char& c : text) {
    if (c == '/' || static_cast<unsigned char>(c) < 32) c = '_';
  }
  if (text.size() <= kMost) return text;
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const unsigned char c : text) hash = (hash ^ c) * 16777619u;
  return fmt::format("{}-{:08x}", text.substr(0, kMost), hash);
}

}  // namespace

std::string SweepItem::as_text(std::string_view separator) const {
  std::string out;
  for (const auto& [key, value] : params.items()) {
    if (!out.empty()) out += separator;
    out += fmt::format("{}={}", key, parameter_text(value));
  }
  return out;
}

std::string SweepItem::label() const { return name.empty() ? as_text("-") : name; }

SweepItem SweepItem::with(const std::string& key, Json value) const {
  SweepItem out = *this;
  std::string known = key;
  for (const auto& [other, unused] : params.items()) {
    if (underscored(other) == underscored(key)) known = other;
  }
  out.params[known] = std::move(value);
  return out;
}

std::vector<std::string> SweepItem::apply(std::vector<std::string> words) const {
  for (const auto& [key, value] : params.items()) set_parameter(words, key, value);
  return words;
}

bool SweepItem::sets(std::string_view key) const {
  return std::ranges::any_of(params.items(), [&](const auto& entry) {
    return underscored(entry.key()) == underscored(key);
  });
}

Result<std::vector<SweepItem>> parse_param_sweep(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return invalid("it is no JSON");
  if (json.is_object()) {
    Json list = Json::array();
    for (const auto& [name, params] : json.items()) {
      if (!params.is_object()) return invalid(fmt::format("'{}' is not a map of parameters", name));
      list.push_back(params);
      list.back()[kNameKey] = name;
    }
    json = std::move(list);
  }
  if (!json.is_array()) return invalid("it is neither a list of maps nor a map of named maps");
  if (json.empty()) return invalid("it has no combination");
  std::vector<SweepItem> items;
  std::set<std::string> folders;
  for (const Json& record : json) {
    OCTAVO_TRY(SweepItem item, item_of(record, items.size()));
    if (!folders.insert(serve_folder(item)).second) {
      return invalid(fmt::format("duplicate {} '{}': each combination needs its own",
                                 item.name.empty() ? "combination" : kNameKey, item.label()));
    }
    items.push_back(std::move(item));
  }
  return items;
}

Result<std::vector<SweepItem>> read_param_sweep(const std::string& path) {
  constexpr size_t kMost = 16 << 20;
  std::ifstream file(path, std::ios::binary);
  if (!file) return invalid(fmt::format("cannot read {}", path));
  std::string text(kMost + 1, '\0');
  file.read(text.data(), std::streamsize(text.size()));
  text.resize(size_t(file.gcount()));
  if (text.size() > kMost) return invalid(fmt::format("{} is over 16 MiB", path));
  auto items = parse_param_sweep(text);
  if (!items.ok()) return invalid(fmt::format("{}: {}", path, items.error().message));
  return items;
}

Result<LinkVars> parse_link_vars(std::string_view text) {
  LinkVars links;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = item.find('=');
    const auto trimmed = [](std::string_view part) {
      while (part.starts_with(' ')) part.remove_prefix(1);
      while (part.ends_with(' ')) part.remove_suffix(1);
      return std::string(part);
    };
    if (equals == std::string_view::npos || equals != item.rfind('=')) {
      return invalid(fmt::format("--link-vars: '{}' is not SERVE=BENCH", item));
    }
    links.emplace_back(trimmed(item.substr(0, equals)), trimmed(item.substr(equals + 1)));
    if (links.back().first.empty() || links.back().second.empty()) {
      return invalid(fmt::format("--link-vars: '{}' lacks a name", item));
    }
  }
  return links;
}

bool is_linked(const SweepItem& serve, const SweepItem& bench, const LinkVars& links) {
  return std::ranges::all_of(links, [&](const auto& link) {
    return serve.params.contains(link.first) && bench.params.contains(link.second) &&
           serve.params[link.first] == bench.params[link.second];
  });
}

std::string serve_folder(const SweepItem& serve) { return file_name("SERVE--" + serve.label()); }

std::string pair_folder(const SweepItem& serve, const SweepItem& bench, std::string_view extra) {
  std::string out;
  const auto add = [&](const std::string& part) {
    if (!out.empty()) out += '-';
    out += part;
  };
  if (!serve.label().empty()) add("SERVE--" + serve.label());
  if (!bench.label().empty()) add("BENCH--" + bench.label());
  if (!extra.empty()) add(std::string(extra));
  return file_name(out.empty() ? "default" : out);
}

std::vector<int64_t> inner_levels(int64_t first, int64_t last, int64_t count) {
  std::set<int64_t> levels;
  for (int64_t i = 1; i + 1 < count; ++i) {
    const double share = double(i) / double(count - 1);
    const double level = double(first) + double(last - first) * share;
    const auto whole = int64_t(std::nearbyint(level));  // halves to even, as Python rounds
    if (whole >= 1 && whole != first && whole != last) levels.insert(whole);
  }
  return {levels.begin(), levels.end()};
}

}  // namespace octavo::bench
