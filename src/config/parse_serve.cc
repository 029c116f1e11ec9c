#include "config/parse_serve.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "config/arguments.h"
#include "config/config_file.h"
#include "config/flags.h"
#include "config/help.h"
#include "config/value.h"

namespace octavo::config {
namespace {

Error invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

/// `--help` or `--help=TOPIC` anywhere before `--`.
std::optional<std::string> help_topic(std::span<const std::string> args) {
  for (const std::string& word : args) {
    if (word == "--") return std::nullopt;
    if (word == "-h" || word == "--help") return "";
    if (word.starts_with("--help=")) return word.substr(7);
  }
  return std::nullopt;
}

std::string python_list(const std::vector<std::string>& words) {
  std::string out = "[";
  for (const std::string& word : words) out += (out.size() > 1 ? ", " : "") + python_text(word);
  return out + "]";
}

/// `text` as note_non_default gives it.
std::string python_value(const Flag* flag, const std::string& text) {
  if (flag == nullptr || flag->extra.is_secret) return python_text(text);
  switch (flag->kind) {
    case Kind::kSwitch:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kJson:
    case Kind::kJsonList:
      return text.empty() ? "None" : text;
    case Kind::kHumanInt:
    case Kind::kLength: {
      const auto number = parse_human_integer(text);
      if (number.ok()) return fmt::format("{}", *number);
      return text.empty() ? "None" : python_text(text);
    }
    case Kind::kList:
      return text.starts_with('[') ? text : python_list({text});
    default:
      return text.empty() ? "None" : python_text(text);
  }
}

/// One source of arguments, flag by flag.
using Uses = std::map<const Flag*, std::vector<const Assignment*>>;

class ServeParser {
 public:
  ServeParser(std::span<const std::string> args, const EnvironmentLookup& environment)
      : args_(args), environment_(environment) {}

  Result<ParseOutcome> parse() {
    OCTAVO_TRY(apply_environment(environment_, outcome_.config));
    OCTAVO_TRY(command_line_, read_arguments(args_));
    OCTAVO_TRY(read_file());
    OCTAVO_TRY(resolve_model());
    note_duplicates(file_);
    note_duplicates(command_line_);
    Uses uses;
    collect(file_, uses);
    collect(command_line_, uses);
    for (const Flag* flag : all_flags()) {
      const auto it = uses.find(flag);
      if (it != uses.end()) OCTAVO_TRY(apply(*flag, it->second));
    }
    OCTAVO_TRY(check());
    outcome_.config.command_line = words_of(command_line_);
    return std::move(outcome_);
  }

 private:
  const Flag* flag(std::string_view name) const { return find_flag(name); }

  static const Assignment* last_use(const Arguments& arguments, const Flag* flag) {
    for (size_t i = arguments.assignments.size(); i-- > 0;) {
      if (arguments.assignments[i].flag == flag) return &arguments.assignments[i];
    }
    return nullptr;
  }

  static std::vector<std::string> words_of(const Arguments& arguments) {
    std::vector<std::string> words = arguments.positionals;
    for (const Assignment& use : arguments.assignments) {
      std::string name = use.boolean ? "--" : "--no-";
      name += use.flag->name;
      if (!use.dotted.empty()) name += "." + use.dotted;
      if (use.appends) name += "+";
      words.push_back(std::move(name));
      for (const std::string& word : use.words) {
        words.push_back(use.flag->extra.is_secret ? "***" : word);
      }
    }
    return words;
  }

  /// Rule 10.
  Status read_file() {
    const auto& uses = command_line_.assignments;
    const Flag* config = flag("config");
    const auto num_files =
        std::count_if(uses.begin(), uses.end(), [&](const auto& a) { return a.flag == config; });
    if (num_files == 0) return {};
    if (num_files > 1) return invalid("argument --config: only one config file is read");
    has_file_ = true;
    OCTAVO_TRY(ConfigFile file, read_config_file(last_use(command_line_, config)->words.front()));
    file_model_ = std::move(file.model);
    auto arguments = read_arguments(file.words);
    if (!arguments.ok()) return invalid("config file: " + arguments.error().message);
    file_ = std::move(arguments).value();
    if (!file_.positionals.empty()) {
      return invalid("config file: unrecognized arguments: " + file_.positionals.front());
    }
    return {};
  }

  /// Rule 2 and the model of rule 10.
  Status resolve_model() {
    const auto& positionals = command_line_.positionals;
    if (positionals.size() > 1) {
      return invalid(fmt::format("unrecognized arguments: {}",
                                 fmt::join(positionals.begin() + 1, positionals.end(), " ")));
    }
    std::string model = positionals.empty() ? "" : positionals.front();
    const Assignment* by_flag = last_use(command_line_, flag("model"));
    if (by_flag != nullptr) {
      outcome_.warnings.push_back(
          "With `octavo serve`, give the model as the positional argument instead of --model, "
          "which may be dropped in a later version.");
      if (model.empty()) model = by_flag->words.front();
    }
    const bool named_on_command_line = !model.empty();
    if (model.empty()) model = file_model_;
    if (model.empty() && has_file_) {
      return invalid("no model: give it as the positional argument or as `model` in the file");
    }
    if (!named_on_command_line && !has_file_ &&
        last_use(command_line_, flag("served-model-name")) != nullptr) {
      return invalid(
          "--served-model-name needs the model as the positional argument, before the flag");
    }
    outcome_.config.engine.model.model = model;
    if (!model.empty()) outcome_.config.non_default_args.emplace_back("model_tag", model);
    return {};
  }

  void note_duplicates(const Arguments& arguments) {
    std::map<std::pair<const Flag*, std::string>, int> counts;
    for (const Assignment& use : arguments.assignments) {
      if (use.flag->kind != Kind::kRepeat && !use.appends) ++counts[{use.flag, use.dotted}];
    }
    std::vector<std::string> names;
    for (const auto& [key, count] : counts) {
      if (count < 2) continue;
      std::string name = fmt::format("--{}", key.first->name);
      if (!key.second.empty()) name += '.' + key.second;
      names.push_back(std::move(name));
    }
    if (names.empty()) return;
    std::sort(names.begin(), names.end());
    outcome_.warnings.push_back(
        fmt::format("Found duplicate keys {}; the last value counts.", fmt::join(names, ", ")));
  }

  /// A later source replaces an earlier one; within a source every use counts.
  static void collect(const Arguments& arguments, Uses& uses) {
    Uses own;
    for (const Assignment& use : arguments.assignments) own[use.flag].push_back(&use);
    for (auto& [flag, list] : own) {
      // Dotted keys of the command line merge into the value of the file.
      const bool merges = flag->kind == Kind::kJson && !list.front()->dotted.empty();
      auto& all = uses[flag];
      if (!merges) all.clear();
      all.insert(all.end(), list.begin(), list.end());
    }
  }

  Status apply(const Flag& flag, const std::vector<const Assignment*>& uses) {
    OCTAVO_TRY(const Value value, read_value(flag, uses));
    switch (flag.stage) {
      case Stage::kBuilt:
        if (flag.name == "model") return {};
        flag.apply(outcome_.config, value);
        note_non_default(flag, value);
        return {};
      case Stage::kNoEffect:
        outcome_.notes.push_back(fmt::format("--{} has no effect here. {}", flag.name, flag.help));
        return {};
      case Stage::kLater:
        break;
    }
    if (!is_neutral(flag, value)) {
      return invalid(
          fmt::format("argument --{}: octavo knows this flag, but {} belongs to a later version; "
                      "leave it out (default: {})",
                      flag.name, flag.takes_bool() || value.text.empty() ? "it" : value.text,
                      flag.effective_default()));
    }
    outcome_.notes.push_back(
        fmt::format("--{} belongs to a later version; its default changes nothing.", flag.name));
    return {};
  }

  void note_non_default(const Flag& flag, const Value& value) {
    if (value.text == flag.effective_default() ||
        (value.is_unset && flag.default_text == "unset")) {
      return;
    }
    std::string name(flag.name);
    std::replace(name.begin(), name.end(), '-', '_');
    // One word of a list stands for itself.
    const bool is_list = flag.kind == Kind::kList && value.list.size() != 1;
    outcome_.config.non_default_args.emplace_back(std::move(name), flag.extra.is_secret ? "***"
                                                                   : is_list
                                                                       ? python_list(value.list)
                                                                       : value.text);
  }

  /// Checks made before anything is loaded.
  Status check() const {
    const Config& c = outcome_.config;
    if (c.engine.model.max_model_len == 0) {
      return invalid("argument --max-model-len: 0 is out of range, allowed is -1 or at least 1");
    }
    const std::string& chat_template = c.frontend.chat_template;
    std::error_code failure;
    if (!chat_template.empty() && chat_template.find_first_of("{}\n") == std::string::npos &&
        !std::filesystem::is_regular_file(chat_template, failure)) {
      return invalid(fmt::format("argument --chat-template: '{}' is neither a file nor a template",
                                 chat_template));
    }
    const std::string& generation = c.engine.model.generation_config;
    if (generation != "auto" && generation != "vllm" &&
        !std::filesystem::is_directory(generation, failure)) {
      return invalid(fmt::format(
          "argument --generation-config: '{}' is neither auto, vllm nor a folder", generation));
    }
    return {};
  }

  std::span<const std::string> args_;
  const EnvironmentLookup& environment_;
  Arguments command_line_ = {};
  Arguments file_ = {};
  std::string file_model_ = {};
  bool has_file_ = false;
  ParseOutcome outcome_ = {};
};

}  // namespace

Result<ParseOutcome> parse_serve(std::span<const std::string> args,
                                 const EnvironmentLookup& environment) {
  auto outcome = parse_engine_flags(args, environment);
  if (outcome.ok()) return outcome;
  return Error{outcome.error().code,
               fmt::format("{}\noctavo serve: error: {}", serve_usage(), outcome.error().message)};
}

Result<ParseOutcome> parse_engine_flags(std::span<const std::string> args,
                                        const EnvironmentLookup& environment) {
  if (const auto topic = help_topic(args)) {
    ParseOutcome outcome;
    outcome.help_text = serve_help(*topic);
    return outcome;
  }
  return ServeParser(args, environment).parse();
}

std::string python_dict(const std::vector<std::pair<std::string, std::string>>& arguments) {
  std::string out = "{";
  for (const auto& [name, text] : arguments) {
    std::string dashed = name;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    out += fmt::format("{}'{}': {}", out.size() > 1 ? ", " : "", name,
                       python_value(find_flag(dashed), text));
  }
  return out + "}";
}

}  // namespace octavo::config
