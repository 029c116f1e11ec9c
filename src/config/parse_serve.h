#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "config/environment.h"

namespace octavo::config {

/// What `octavo serve ARGS` asks for: help, or a server.
struct ParseOutcome {
  std::string help_text;  // print it and exit 0; empty: serve
  Config config;
  std::vector<std::string> warnings;  // lines for the log, WARNING
  std::vector<std::string> notes;     // lines for the log, DEBUG
};

/// Reads the words after `octavo serve` (docs/reference/flags.md). Command line beats
/// --config file beats environment beats default. The error's message is what goes to stderr, usage
/// line included; the exit status is then 2.
Result<ParseOutcome> parse_serve(std::span<const std::string> args,
                                 const EnvironmentLookup& environment);

/// The same for another command that takes the server's flags: its error is the bare reason.
Result<ParseOutcome> parse_engine_flags(std::span<const std::string> args,
                                        const EnvironmentLookup& environment);

/// Config::non_default_args as Python shows a dict: {'seed': 4, 'dtype': 'float32'}.
std::string python_dict(const std::vector<std::pair<std::string, std::string>>& arguments);

}  // namespace octavo::config
