#include "cli/app.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/log.h"
#include "cli/bench.h"
#include "cli/clients.h"
#include "cli/collect_env.h"
#include "config/parse_serve.h"
#include "config/version.h"

namespace octavo::cli {
namespace {

constexpr int kUsageError = 2;

int serve(std::span<const std::string> args, const Host& host);

struct Subcommand {
  std::string_view name;
  std::string_view help;
  int (*run)(std::span<const std::string>, const Host&);  // nullptr: a later version's
};

constexpr auto kSubcommands = std::to_array<Subcommand>({
    {"serve", "Serve a model to OpenAI clients.", serve},
    {"chat", "Chat with a running server.", run_chat},
    {"complete", "Complete text with a running server.", run_complete},
    {"bench", "Measure a server or the engine.", run_bench},
    {"tune", "Find a server's highest rate and the flags for it.", run_tune},
    {"config", "Record what a running server runs with.", run_config},
    {"health", "Ask a running server how it is.", run_health},
    {"run-batch", "Run a file of requests.", nullptr},
    {"collect-env", "Print a report of this machine.", run_collect_env},
    {"launch", "Start a part of the server.", nullptr},
    {"download-kernels", "Fetch compiled kernels.", nullptr},
    {"preload", "Keep weights in memory.", nullptr},
    {"snapshot", "Save and restore a process.", nullptr},
});

/// Names of what is built, joined by `separator`.
std::string built_names(std::string_view separator) {
  std::string out;
  for (const Subcommand& subcommand : kSubcommands) {
    if (subcommand.run == nullptr) continue;
    if (!out.empty()) out += separator;
    out += subcommand.name;
  }
  return out;
}

std::string usage() { return fmt::format("usage: octavo [-h] [-v] {{{}}} ...", built_names(",")); }

log::Level log_level_of(std::string_view name) {
  if (name == "DEBUG" || name == "NOTSET") return log::Level::kDebug;
  if (name == "WARNING") return log::Level::kWarning;
  if (name == "ERROR") return log::Level::kError;
  if (name == "CRITICAL") return log::Level::kCritical;
  return log::Level::kInfo;
}

void print_help(std::FILE* out) {
  fmt::print(out, "{}\n\nServes large language models.\n\nsubcommands:\n", usage());
  for (const Subcommand& subcommand : kSubcommands) {
    if (subcommand.run != nullptr) {
      fmt::print(out, "  {:<18}{}\n", subcommand.name, subcommand.help);
    }
  }
  fmt::print(out,
             "\noptions:\n"
             "  -h, --help        Show this text.\n"
             "  -v, --version     Print the version.\n\n"
             "More: octavo serve --help\n");
}

int serve(std::span<const std::string> args, const Host& host) {
  auto outcome = config::parse_serve(args, host.environment);
  if (!outcome.ok()) {
    fmt::print(host.err, "{}\n", outcome.error().message);
    return kUsageError;
  }
  if (!outcome->help_text.empty()) {
    fmt::print(host.out, "{}", outcome->help_text);
    return 0;
  }
  log::set_level(log_level_of(outcome->config.log_level));
  for (const std::string& warning : outcome->warnings) {
    log::warning(log::Source::kApiServer, "{}", warning);
  }
  const auto unread = config::unread_variables(host.variable_names);
  if (!unread.empty()) {
    log::warning(log::Source::kApiServer, "Environment variables without effect: {}",
                 fmt::format("{}", fmt::join(unread, ", ")));
  }
  for (const std::string& note : outcome->notes) log::debug(log::Source::kApiServer, "{}", note);
  return host.serve(outcome->config);
}

}  // namespace

int run(std::span<const std::string> args, const Host& host) {
  if (args.empty() || args[0] == "-h" || args[0] == "--help") {
    print_help(host.out);
    return 0;
  }
  if (args[0] == "-v" || args[0] == "--version") {
    fmt::print(host.out, "{}\n", config::version());
    return 0;
  }
  const auto subcommand =
      std::find_if(kSubcommands.begin(), kSubcommands.end(),
                   [&](const Subcommand& known) { return known.name == args[0]; });
  if (subcommand == kSubcommands.end()) {
    fmt::print(host.err, "{}\noctavo: error: {} '{}' (choose from {})\n", usage(),
               args[0].starts_with('-') ? "unrecognized arguments:" : "invalid choice:", args[0],
               built_names(", "));
    return kUsageError;
  }
  if (subcommand->run == nullptr) {
    fmt::print(host.err, "octavo: error: octavo knows `{}`, but it belongs to a later version\n",
               args[0]);
    return kUsageError;
  }
  return subcommand->run(args.subspan(1), host);
}

}  // namespace octavo::cli
