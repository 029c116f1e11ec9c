#include "config/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/check.h"
#include "config/value.h"

namespace octavo::config {
namespace {

Error usage_error(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

std::optional<int64_t> to_integer(std::string_view word) {
  if (word.starts_with('+')) word.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::optional<double> to_real(std::string_view word) {
  if (word.starts_with('+')) word.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || std::isnan(value)) {
    return std::nullopt;
  }
  return value;
}

bool is_one_of(std::string_view choices, std::string_view word) {
  for (size_t begin = 0; begin < choices.size();) {
    const size_t end = std::min(choices.find(' ', begin), choices.size());
    if (choices.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

std::string spelled(const Option& option) { return fmt::format("argument --{}", option.name); }

/// What is wrong with one word of `option`, or nothing.
std::optional<std::string> complaint(const Option& option, const std::string& word) {
  switch (option.kind) {
    case OptionKind::kInt:
      if (!to_integer(word)) return fmt::format("invalid int value: '{}'", word);
      break;
    case OptionKind::kFloat:
      if (!to_real(word)) return fmt::format("invalid float value: '{}'", word);
      break;
    case OptionKind::kChoice:
      if (!is_one_of(option.choices, word)) {
        std::string list(option.choices);
        for (size_t at = list.find(' '); at != std::string::npos; at = list.find(' ', at + 2)) {
          list.replace(at, 1, ", ");
        }
        return fmt::format("invalid choice: '{}' (choose from {})", word, list);
      }
      break;
    case OptionKind::kJson: {
      const auto value = nlohmann::json::parse(word, nullptr, false);
      if (!value.is_object()) return "expected a JSON object";
      break;
    }
    default:
      break;
  }
  return std::nullopt;
}

bool takes_words(OptionKind kind) {
  return kind != OptionKind::kSwitch && kind != OptionKind::kBool;
}

/// A word that begins an option and is not a number or a lone dash.
bool is_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !to_real(word);
}

std::string dashed(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

/// A JSON text as Python shows the object; secrets are the caller's business.
std::string python_json(const std::string& text) {
  return nlohmann::ordered_json::parse(text, nullptr, false).dump();
}

}  // namespace

Result<CommandLine> CommandLine::read(std::span<const Option> table,
                                      std::span<const std::string> words) {
  CommandLine line;
  for (const Option& option : table) {
    Entry entry{&option, {}, false, option.default_text == "true"};
    if (takes_words(option.kind) && !option.default_text.empty()) {
      entry.words = {std::string(option.default_text)};
    }
    line.entries_.push_back(std::move(entry));
  }
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-h" || word == "--help") {
      line.wants_help_ = true;
      continue;
    }
    if (!is_option(word)) {
      line.positionals_.push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    const bool is_long = word.starts_with("--");
    const std::string name = is_long ? dashed(word.substr(2, equals - 2)) : word.substr(1, 1);
    bool negated = false;
    auto found = std::ranges::find_if(line.entries_, [&](const Entry& entry) {
      const Option& option = *entry.option;
      if (!is_long) return option.short_name != 0 && name[0] == option.short_name;
      if (option.name == name) return true;
      negated = option.kind == OptionKind::kBool && name == fmt::format("no-{}", option.name);
      return negated;
    });
    if (found == line.entries_.end()) {
      return usage_error(fmt::format("unrecognized arguments: {}", word));
    }
    Entry& entry = *found;
    const Option& option = *entry.option;
    std::vector<std::string> own;
    if (is_long && equals != std::string::npos) {
      own.push_back(word.substr(equals + 1));
    } else if (!is_long && word.size() > 2) {
      own.push_back(word.substr(word[2] == '=' ? 3 : 2));
    }
    if (!takes_words(option.kind)) {
      if (!own.empty()) {
        return usage_error(
            fmt::format("{}: ignored explicit argument '{}'", spelled(option), own[0]));
      }
      entry.boolean = !negated;
      entry.is_given = true;
    } else {
      const bool is_many = option.kind == OptionKind::kList;
      while (i + 1 < words.size() && !is_option(words[i + 1]) && (is_many || own.empty())) {
        own.push_back(words[++i]);
      }
      if (own.empty()) return usage_error(spelled(option) + ": expected one argument");
      OCTAVO_TRY(line.assign(entry, std::move(own)));
    }
    if (!option.is_built && (entry.boolean != (option.default_text == "true") ||
                             (!entry.words.empty() && entry.words[0] != option.default_text))) {
      return usage_error(
          fmt::format("{}: only its default is accepted. {}", spelled(option), option.help));
    }
  }
  return line;
}

Status CommandLine::assign(Entry& entry, std::vector<std::string> words) {
  for (const std::string& word : words) {
    if (const auto wrong = complaint(*entry.option, word)) {
      return usage_error(fmt::format("{}: {}", spelled(*entry.option), *wrong));
    }
  }
  if (entry.option->kind == OptionKind::kRepeat && entry.is_given) {
    entry.words.insert(entry.words.end(), words.begin(), words.end());
  } else {
    entry.words = std::move(words);
  }
  entry.is_given = true;
  return {};
}

const CommandLine::Entry& CommandLine::entry(std::string_view name) const {
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& e) { return e.option->name == name; });
  CHECK(found != entries_.end());
  return *found;
}

bool CommandLine::has(std::string_view name) const {
  const Entry& e = entry(name);
  return e.is_given || !e.words.empty();
}
bool CommandLine::is_given(std::string_view name) const { return entry(name).is_given; }
bool CommandLine::flag(std::string_view name) const { return entry(name).boolean; }

int64_t CommandLine::integer(std::string_view name) const {
  const Entry& e = entry(name);
  CHECK(e.option->kind == OptionKind::kInt && !e.words.empty());
  return *to_integer(e.words[0]);
}

double CommandLine::real(std::string_view name) const {
  const Entry& e = entry(name);
  CHECK(e.option->kind == OptionKind::kFloat && !e.words.empty());
  return *to_real(e.words[0]);
}

const std::string& CommandLine::text(std::string_view name) const {
  static const std::string kEmpty;
  const Entry& e = entry(name);
  return e.words.empty() ? kEmpty : e.words[0];
}

const std::vector<std::string>& CommandLine::list(std::string_view name) const {
  return entry(name).words;
}

void CommandLine::set(std::string_view name, std::vector<std::string> words) {
  const_cast<Entry&>(entry(name)).words = std::move(words);
}

std::string CommandLine::as_namespace() const {
  std::string out = "Namespace(";
  for (const Entry& e : entries_) {
    const Option& option = *e.option;
    if (out.back() != '(') out += ", ";
    std::string key(option.name);
    std::replace(key.begin(), key.end(), '-', '_');
    out += key + "=";
    if (!takes_words(option.kind)) {
      out += e.boolean ? "True" : "False";
    } else if (e.words.empty()) {
      out += "None";
    } else if (option.is_secret) {
      out += "'***'";
    } else if (option.kind == OptionKind::kInt) {
      out += e.words[0];
    } else if (option.kind == OptionKind::kFloat) {
      out += python_number(*to_real(e.words[0]));
    } else if (option.kind == OptionKind::kJson) {
      out += python_json(e.words[0]);
    } else if (option.kind == OptionKind::kList || option.kind == OptionKind::kRepeat) {
      out += "[";
      for (size_t i = 0; i < e.words.size(); ++i) {
        out += (i == 0 ? "" : ", ") + python_text(e.words[i]);
      }
      out += "]";
    } else {
      out += python_text(e.words[0]);
    }
  }
  return out + ")";
}

std::string describe_options(std::span<const Option> table) {
  std::string out;
  for (const Option& option : table) {
    std::string head = "  ";
    if (option.short_name != 0) head += fmt::format("-{}, ", option.short_name);
    head += fmt::format("--{}", option.name);
    if (!option.choices.empty()) {
      std::string list(option.choices);
      std::replace(list.begin(), list.end(), ' ', ',');
      head += " {" + list + "}";
    } else if (takes_words(option.kind)) {
      head += option.kind == OptionKind::kInt     ? " N"
              : option.kind == OptionKind::kFloat ? " X"
              : option.kind == OptionKind::kJson  ? " JSON"
              : option.kind == OptionKind::kList  ? " WORD [WORD ...]"
                                                  : " TEXT";
    }
    if (!option.default_text.empty()) head += fmt::format("  (default: {})", option.default_text);
    if (!option.is_built) head += "  [only its default is accepted]";
    out += fmt::format("{}\n        {}\n", head, option.help);
  }
  return out;
}

std::string python_number(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

}  // namespace octavo::config
