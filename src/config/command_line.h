#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace octavo::config {

/// How the words after an option are read.
enum class OptionKind : uint8_t {
  kSwitch,  // --x
  kBool,    // --x, --no-x
  kInt,     // one integer
  kFloat,   // one number, also inf
  kText,    // one word
  kChoice,  // one of `choices`
  kList,    // one or more words, up to the next option
  kJson,    // one JSON object
  kRepeat,  // one word; every use adds one
};

/// One option of a client command (`octavo serve` has its own, richer table). An empty default
/// means unset.
struct Option {
  std::string_view name;  // without dashes
  OptionKind kind = OptionKind::kText;
  std::string_view default_text;
  std::string_view help;
  std::string_view choices = {};  // separated by spaces
  char short_name = 0;            // 'q' for -q
  bool is_built = true;           // false: refused unless the value is the default; `help` says why
  bool is_secret = false;         // shown as ***
};

/// The options of one command line, read and checked. Asking for a name that is not in the table,
/// or for another kind of value, is our bug.
class CommandLine {
 public:
  /// `-` and `_` are the same in long names; `--x=value` and `--x value` too. Errors are one line
  /// that names the option: unknown, without a value, not a number, not a choice, not built.
  static Result<CommandLine> read(std::span<const Option> table,
                                  std::span<const std::string> words);

  bool wants_help() const { return wants_help_; }
  const std::vector<std::string>& positionals() const { return positionals_; }

  /// Whether there is a value: from the command line or a default.
  bool has(std::string_view name) const;
  /// Whether the command line names it.
  bool is_given(std::string_view name) const;
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  /// The word of a text, choice or JSON option; empty when unset.
  const std::string& text(std::string_view name) const;
  const std::vector<std::string>& list(std::string_view name) const;

  /// Gives an option the words of another (`--output-len` stands for several).
  void set(std::string_view name, std::vector<std::string> words);

  /// All options as Python shows parsed arguments: `Namespace(a='x', b=1)`, secrets as ***.
  std::string as_namespace() const;

 private:
  struct Entry {
    const Option* option = nullptr;
    std::vector<std::string> words;
    bool is_given = false;
    bool boolean = false;
  };
  const Entry& entry(std::string_view name) const;
  Status assign(Entry& entry, std::vector<std::string> words);

  std::vector<Entry> entries_;  // in the order of the table
  std::vector<std::string> positionals_;
  bool wants_help_ = false;
};

/// The options with their defaults and help, one or two lines each.
std::string describe_options(std::span<const Option> table);

/// A finite or infinite number as Python writes it: "inf", "2.0", "0.5".
std::string python_number(double value);

}  // namespace octavo::config
