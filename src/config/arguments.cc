#include "config/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "config/flags.h"

namespace octavo::config {
namespace {

struct Meaning {
  const Flag* flag;
  bool boolean;
};
using Spellings = std::map<std::string, Meaning, std::less<>>;

/// Every long spelling without its two dashes (rule 3).
Spellings collect_spellings() {
  Spellings spellings;
  for (const Flag* flag : all_flags()) spellings.emplace(flag->name, Meaning{flag, true});
  for (const Flag* flag : all_flags()) {
    if (!has_negation(*flag)) continue;
    const std::string name(flag->name);
    spellings.emplace("no-" + name, Meaning{flag, false});
    if (name.starts_with("enable-")) {
      spellings.emplace("disable-" + name.substr(7), Meaning{flag, false});
    } else if (name.starts_with("disable-")) {
      spellings.emplace("enable-" + name.substr(8), Meaning{flag, false});
    }
  }
  spellings.emplace("device-memory-utilization",
                    Meaning{find_flag("gpu-memory-utilization"), true});
  return spellings;
}

const Spellings& spellings() {
  static const Spellings all = collect_spellings();
  return all;
}

const Flag* find_short(std::string_view name) {
  for (const Flag* flag : all_flags()) {
    if (!flag->extra.short_name.empty() && flag->extra.short_name == name) return flag;
  }
  return nullptr;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substitute, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

Error invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

Error unknown(std::string_view word) {
  const std::string_view name = word.substr(0, word.find_first_of("=."));
  std::string hint;
  if (name == "--task") {
    hint = " (use --runner pooling and --convert)";
  } else if (name == "--omni") {
    hint = " (octavo serves text only)";
  } else if (name.starts_with("--")) {
    const std::string nearest = nearest_flag(name.substr(2));
    if (!nearest.empty()) hint = fmt::format(" (did you mean --{}?)", nearest);
  }
  return invalid(fmt::format("unrecognized arguments: {}{}", word, hint));
}

/// The flag that `name` spells, in full or by an unambiguous beginning (as argparse allows).
Result<Meaning> find_meaning(const std::string& name, std::string_view word) {
  const auto exact = spellings().find(name);
  if (exact != spellings().end()) return exact->second;
  std::vector<std::string> matches;
  std::optional<Meaning> found;
  bool is_ambiguous = false;
  for (auto it = spellings().lower_bound(name);
       !name.empty() && it != spellings().end() && it->first.starts_with(name); ++it) {
    matches.push_back("--" + it->first);
    is_ambiguous |=
        found && (found->flag != it->second.flag || found->boolean != it->second.boolean);
    found = it->second;
  }
  if (!found) return unknown(word);
  if (is_ambiguous) {
    constexpr size_t kMaxShown = 8;
    if (matches.size() > kMaxShown) matches.resize(kMaxShown);
    return invalid(
        fmt::format("ambiguous option: --{} could match {}", name, fmt::join(matches, ", ")));
  }
  return *found;
}

bool is_number_like(std::string_view word) {
  return word.size() > 1 && word[0] == '-' &&
         word.find_first_not_of("0123456789.", 1) == std::string_view::npos;
}
bool is_option_like(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && !is_number_like(word) &&
         word.find(' ') == std::string_view::npos;
}

std::optional<bool> bool_literal(std::string_view word) {
  if (word == "true" || word == "True" || word == "TRUE") return true;
  if (word == "false" || word == "False" || word == "FALSE") return false;
  return std::nullopt;
}

/// A word that starts with a dash, taken apart.
struct Option {
  Assignment assignment;
  std::optional<std::string> inline_value;  // after '='
  std::string spelled;                      // for messages
};

Result<Option> parse_option(const std::string& word) {
  Option option;
  const size_t equals = word.find('=');
  std::string head = word.substr(0, equals);
  if (equals != std::string::npos) option.inline_value = word.substr(equals + 1);
  option.spelled = head;
  if (head.ends_with('+')) {
    option.assignment.appends = true;
    head.pop_back();
  }
  const size_t dot = head.find('.');
  if (dot != std::string::npos) {
    option.assignment.dotted = head.substr(dot + 1);
    head.resize(dot);
    if (option.assignment.dotted.empty()) return unknown(word);
  }
  if (!head.starts_with("--")) {
    option.assignment.flag = find_short(std::string_view(head).substr(1));
    if (option.assignment.flag == nullptr && head.starts_with("-O") && dot == std::string::npos) {
      option.assignment.flag = find_flag("optimization-level");
      if (head.size() > 2) option.inline_value = head.substr(2);
    }
    if (option.assignment.flag == nullptr) return unknown(word);
  } else {
    std::string name = head.substr(2);
    std::replace(name.begin(), name.end(), '_', '-');
    OCTAVO_TRY(const Meaning meaning, find_meaning(name, word));
    option.assignment.flag = meaning.flag;
    option.assignment.boolean = meaning.boolean;
  }
  const bool is_dotted = !option.assignment.dotted.empty();
  if ((is_dotted || option.assignment.appends) && option.assignment.flag->kind != Kind::kJson) {
    return unknown(word);
  }
  if (option.assignment.appends && !is_dotted) return unknown(word);
  return option;
}

/// Takes the words of `option` from `words[next...]`.
Status take_words(Option& option, std::span<const std::string> words, size_t& next) {
  Assignment& a = option.assignment;
  const bool has_next = next < words.size() && !is_option_like(words[next]);
  switch (a.flag->kind) {
    case Kind::kSwitch:
      if (option.inline_value) {
        return invalid(fmt::format("argument {}: ignored explicit argument '{}'", option.spelled,
                                   *option.inline_value));
      }
      return {};
    case Kind::kBool: {
      // Beyond argparse, --x=false and --x false are read: scripts write them.
      std::optional<bool> literal;
      if (option.inline_value) {
        literal = bool_literal(*option.inline_value);
        if (!literal) {
          return invalid(fmt::format("argument {}: invalid bool value: '{}'", option.spelled,
                                     *option.inline_value));
        }
      } else if (has_next && (literal = bool_literal(words[next]))) {
        ++next;
      }
      if (literal) a.boolean = a.boolean == *literal;
      return {};
    }
    case Kind::kBoolOrString:
      if (option.inline_value) {
        a.words = {*option.inline_value};
      } else if (has_next) {
        a.words = {words[next++]};
      }
      return {};
    case Kind::kList:
      if (option.inline_value) {
        a.words = {*option.inline_value};
        return {};
      }
      while (next < words.size() && !is_option_like(words[next])) a.words.push_back(words[next++]);
      if (a.words.empty()) {
        return invalid(fmt::format("argument {}: expected at least one argument", option.spelled));
      }
      return {};
    default:
      if (!option.inline_value && !has_next) {
        return invalid(fmt::format("argument {}: expected one argument", option.spelled));
      }
      a.words = {option.inline_value ? *option.inline_value : words[next++]};
      return {};
  }
}

}  // namespace

bool has_negation(const Flag& flag) { return flag.kind == Kind::kBool; }

std::string nearest_flag(std::string_view name) {
  std::string wanted(name.substr(0, 64));
  std::replace(wanted.begin(), wanted.end(), '_', '-');
  size_t best = std::max<size_t>(2, wanted.size() / 4) + 1;
  std::string nearest;
  for (const auto& [spelling, meaning] : spellings()) {
    const size_t distance = edit_distance(wanted, spelling);
    if (distance < best) {
      best = distance;
      nearest = spelling;
    }
  }
  return nearest;
}

Result<Arguments> read_arguments(std::span<const std::string> words) {
  Arguments arguments;
  for (size_t next = 0; next < words.size();) {
    const std::string& word = words[next];
    if (word == "--") {
      arguments.positionals.insert(arguments.positionals.end(), words.begin() + next + 1,
                                   words.end());
      break;
    }
    ++next;
    if (!is_option_like(word)) {
      arguments.positionals.push_back(word);
      continue;
    }
    OCTAVO_TRY(Option option, parse_option(word));
    OCTAVO_TRY(take_words(option, words, next));
    arguments.assignments.push_back(std::move(option.assignment));
  }
  return arguments;
}

}  // namespace octavo::config
