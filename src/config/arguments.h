#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/flag.h"

namespace octavo::config {

/// One use of a flag, its words not read yet.
struct Assignment {
  const Flag* flag = nullptr;
  std::vector<std::string> words;
  bool boolean = true;   // kBool, kSwitch: --no-x and --disable-x are false
  std::string dotted;    // "a.b" of --x.a.b; empty for --x
  bool appends = false;  // --x.list+ a
};

/// A command line (or config file) cut into uses of flags.
struct Arguments {
  std::vector<Assignment> assignments;  // in order
  std::vector<std::string> positionals;
};

/// Reads words as vLLM's command line does: --flag value and --flag=value, `-` and `_` alike,
/// --json.key value. Errors are one line and
/// name the flag; an unknown one comes with the nearest known name. Lets no value pass unread.
Result<Arguments> read_arguments(std::span<const std::string> words);

/// "option `name`" that is spelled nearest, or empty when none is near.
std::string nearest_flag(std::string_view name);

/// True for `--no-x` where x has that form.
bool has_negation(const Flag& flag);

}  // namespace octavo::config
