#include "bench/command_flags.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/command_line.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;

/// "max_num_seqs" -> "max-num-seqs"; "a_b.c_d" -> "a-b.c_d".
std::string normal_name(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.begin() + ptrdiff_t(std::min(out.find('.'), out.size())), '_', '-');
  return out;
}

bool is_flag(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }

/// Name of a flag's word, without dashes and value.
std::string name_of(const std::string& word) {
  return normal_name(std::string_view(word).substr(2, word.find('=') - 2));
}

std::vector<std::string> words_of(const std::string& name, const Json& value) {
  const std::string flag = "--" + name;
  if (value.is_null()) return {};
  if (value.is_boolean()) {
    if (name.find('.') != std::string::npos) return {flag + (value ? "=true" : "=false")};
    return {value ? flag : "--no-" + name};
  }
  std::vector<std::string> out{flag};
  if (value.is_array()) {
    for (const Json& entry : value) out.push_back(parameter_text(entry));
  } else {
    out.push_back(parameter_text(value));
  }
  return out;
}

/// How many words behind the flag are its values. A switch has none; what a list may have goes on
/// up to the next flag.
size_t num_values(const std::vector<std::string>& words, size_t flag, const Json& value) {
  if (value.is_boolean() || words[flag].find('=') != std::string::npos) return 0;
  size_t count = 0;
  while (flag + 1 + count < words.size() && !is_flag(words[flag + 1 + count])) {
    ++count;
    if (!value.is_array()) break;
  }
  return count;
}

}  // namespace

std::string parameter_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return config::python_number(value.get<double>());
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void set_parameter(std::vector<std::string>& words, std::string_view name, const Json& value) {
  const std::string wanted = normal_name(name);
  const auto sets_it = [&](const std::string& word) {
    if (!is_flag(word)) return false;
    const std::string known = name_of(word);
    return known == wanted || known == "no-" + wanted;
  };
  // All of them go: of a flag that is there twice the last one would win.
  size_t place = words.size();
  while (true) {
    const auto found = std::ranges::find_if(words, sets_it);
    if (found == words.end()) break;
    const auto index = size_t(found - words.begin());
    if (place >= words.size()) place = index;
    words.erase(found, found + ptrdiff_t(1 + num_values(words, index, value)));
    place = std::min(place, words.size());
  }
  const std::vector<std::string> added = words_of(wanted, value);
  words.insert(words.begin() + ptrdiff_t(place), added.begin(), added.end());
}

std::string find_flag(const std::vector<std::string>& words, std::string_view name) {
  std::string value;
  for (size_t i = 0; i < words.size(); ++i) {
    if (!is_flag(words[i]) || name_of(words[i]) != name) continue;
    const size_t equals = words[i].find('=');
    if (equals != std::string::npos) {
      value = words[i].substr(equals + 1);
    } else if (i + 1 < words.size() && !is_flag(words[i + 1])) {
      value = words[i + 1];
    }
  }
  return value;
}

}  // namespace octavo::bench
