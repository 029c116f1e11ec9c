#include "config/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "config/arguments.h"
#include "config/environment.h"
#include "config/flags.h"

namespace octavo::config {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kIndent = 8;

std::string lower_dashed(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) {
    return c == '_' ? '-' : static_cast<char>(std::tolower(c));
  });
  return out;
}

/// `text` cut at spaces into lines of kColumns, each indented.
std::string wrapped(std::string_view text) {
  std::string out;
  std::string line(kIndent, ' ');
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (line.size() > kIndent && line.size() + 1 + word.size() > kColumns) {
      out += line + "\n";
      line.assign(kIndent, ' ');
    }
    if (line.size() > kIndent) line += ' ';
    line += word;
    begin = end + 1;
  }
  return out + line + "\n";
}

std::string_view placeholder(Kind kind) {
  switch (kind) {
    case Kind::kSwitch:
    case Kind::kBool:
      return "";
    case Kind::kInt:
    case Kind::kHumanInt:
    case Kind::kLength:
      return " N";
    case Kind::kFloat:
      return " X";
    case Kind::kList:
      return " WORD [WORD ...]";
    case Kind::kJson:
    case Kind::kJsonList:
      return " JSON";
    case Kind::kBoolOrString:
      return " [TEXT]";
    default:
      return " TEXT";
  }
}

std::string comma_separated(std::string_view words) {
  std::string out;
  for (const char c : words) c == ' ' ? out += ", " : out += c;
  return out;
}

std::string_view type_name(Kind kind) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"switch", "bool", "int", "human int", "human int or auto", "float", "text", "choice", "list",
       "JSON", "JSON list", "text, repeatable", "bool or text"});
  return kNames[static_cast<size_t>(kind)];
}

std::string_view stage_note(const Flag& flag) {
  switch (flag.stage) {
    case Stage::kBuilt:
      return "";
    case Stage::kNoEffect:
      return "Accepted, has no effect.";
    default:
      return "Belongs to a later version; only its default is accepted.";
  }
}

/// Help and stage as one text.
std::string description(const Flag& flag) {
  std::string text(flag.help);
  const std::string_view note = stage_note(flag);
  if (!text.empty() && !note.empty()) text += ' ';
  return text += note;
}

std::string flag_entry(const Flag& flag) {
  std::string head = fmt::format("  --{}", flag.name);
  if (has_negation(flag)) {
    // `--no-enable-x` is read too, but nobody should learn it.
    head += flag.name.starts_with("enable-") ? fmt::format(", --disable-{}", flag.name.substr(7))
                                             : fmt::format(", --no-{}", flag.name);
  }
  if (!flag.extra.short_name.empty()) head += fmt::format(", -{}", flag.extra.short_name);
  head += placeholder(flag.kind);
  std::string text = description(flag);
  if (!flag.extra.choices.empty()) {
    text += fmt::format(" One of: {}.", comma_separated(flag.extra.choices));
  }
  if (!flag.extra.bounds.empty()) text += fmt::format(" Allowed: {}.", flag.extra.bounds);
  text += fmt::format(" (default: {})", flag.effective_default());
  if (text.front() == ' ') text.erase(0, 1);
  return head + "\n" + wrapped(text);
}

std::string group_help(Group group) {
  std::string out = fmt::format("{}:\n", title_of(group));
  if (group == Group::kPositional) {
    return out + "  model_tag\n" +
           wrapped(
               "Directory or .gguf file of the model; without it, the default model of the "
               "cache.");
  }
  if (group == Group::kOptions) {
    out += "  -h, --help[=TOPIC]\n" +
           wrapped("Shows this text; TOPIC is all, a group, or a part of a flag's name.");
  }
  for (const Flag* flag : all_flags()) {
    if (flag->group == group) out += flag_entry(*flag);
  }
  return out;
}

std::string overview() {
  std::string out = serve_usage() +
                    "\n\nServes a model to OpenAI clients.\n\n"
                    "Config Groups:\n";
  for (size_t i = 0; i < size_t(Group::kNumGroups); ++i) {
    out += fmt::format("  {}\n", title_of(static_cast<Group>(i)));
  }
  return out +
         "\nTo see\n"
         "  every flag:            octavo serve --help=all\n"
         "  the flags of a group:  octavo serve --help=ModelConfig\n"
         "  flags by a word:       octavo serve --help=max\n";
}

std::string list(std::vector<const Flag*> flags) {
  std::sort(flags.begin(), flags.end(),
            [](const Flag* a, const Flag* b) { return a->name < b->name; });
  std::string out = serve_usage() + "\n\n";
  for (const Flag* flag : flags) out += flag_entry(*flag);
  return out;
}

/// A cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) c == '|' ? out += "\\|" : out += c;
  return out;
}

std::string markdown_row(const Flag& flag) {
  std::string names = fmt::format("`--{}`", flag.name);
  if (!flag.extra.short_name.empty()) names += fmt::format(" `-{}`", flag.extra.short_name);
  std::string type(type_name(flag.kind));
  if (!flag.extra.bounds.empty()) type += fmt::format(" {}", flag.extra.bounds);
  if (!flag.extra.choices.empty()) type += ": " + comma_separated(flag.extra.choices);
  std::string default_text = fmt::format("`{}`", flag.effective_default());
  if (!flag.extra.octavo_default.empty()) {
    default_text += fmt::format(" (vLLM: {})", flag.default_text);
  }
  return fmt::format("| {} | {} | {} | {} |\n", names, cell(type), cell(default_text),
                     cell(description(flag)));
}

std::string markdown() {
  std::string out =
      "# Flags of `octavo serve`\n\n"
      "Written by `octavo serve --help=markdown`; do not edit.\n\n"
      "`-` and `_` are the same in names, and an unambiguous beginning of a name will do. A bool "
      "takes `--no-x` (and `--disable-x` for `--enable-x`). Human integers: `25.6k` = 25600, "
      "`4K` = 4096. JSON values may be given key by key: `--x.key value`. The command line wins "
      "over `--config FILE`, that over environment variables, those over defaults.\n";
  for (size_t i = 0; i < size_t(Group::kNumGroups); ++i) {
    const Group group = static_cast<Group>(i);
    std::string rows;
    for (const Flag* flag : all_flags()) {
      if (flag->group == group) rows += markdown_row(*flag);
    }
    if (rows.empty()) continue;
    out += fmt::format("\n## {}\n\n| flag | type | default | |\n|---|---|---|---|\n{}",
                       title_of(group), rows);
  }
  return out +
         "\n## Environment variables\n\nAn empty one counts as not set; a flag wins over its "
         "variable.\n\n" +
         environment_markdown();
}

}  // namespace

std::string serve_usage() { return "usage: octavo serve [model_tag] [options]"; }

std::string serve_help(std::string_view topic) {
  if (topic.empty()) return overview();
  const std::string wanted = lower_dashed(topic);
  if (wanted == "all") return list(all_flags());
  if (wanted == "markdown") return markdown();
  for (size_t i = 0; i < size_t(Group::kNumGroups); ++i) {
    const Group group = static_cast<Group>(i);
    if (lower_dashed(title_of(group)) == wanted) return serve_usage() + "\n\n" + group_help(group);
  }
  std::vector<const Flag*> matches;
  std::copy_if(all_flags().begin(), all_flags().end(), std::back_inserter(matches),
               [&](const Flag* flag) { return flag->name.find(wanted) != std::string_view::npos; });
  if (matches.empty()) {
    return fmt::format(
        "No group or flag matches '{}'. Use --help to list the groups, --help=all for all flags.\n",
        topic);
  }
  return list(std::move(matches));
}

}  // namespace octavo::config
