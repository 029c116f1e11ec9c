#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "bench/bench.h"
#include "bench/offline.h"

namespace octavo::bench {

/// What the two offline commands do before they measure.
struct OfflineCommand {
  config::CommandLine line;
  config::Config config;
  std::unique_ptr<OfflineEngine> engine;
};

/// Reads the words against `table` and `octavo serve`'s options, prints help or what is wrong, sets
/// the log level; the engine stays unopened. nullopt: nothing is left to do, and `exit_code` says
/// how it ended.
std::optional<OfflineCommand> read_offline(std::string_view name,
                                           std::span<const config::Option> table,
                                           std::span<const std::string> args, const Host& host,
                                           int& exit_code);

/// The same, and opens the engine. `adjust` sees the configuration before the model is loaded.
std::optional<OfflineCommand> open_offline(std::string_view name,
                                           std::span<const config::Option> table,
                                           std::span<const std::string> args, const Host& host,
                                           void (*adjust)(config::Config&), int& exit_code);

/// `octavo bench latency`: the time of one batch, repeated.
int run_latency(std::span<const std::string> args, const Host& host);
/// `octavo bench throughput`: a data set through the engine, all at once.
int run_throughput(std::span<const std::string> args, const Host& host);

/// Writes `json` and a newline to `path`; reports a failure. The exit status.
int write_json(const std::string& path, const std::string& json, const Host& host);

}  // namespace octavo::bench
