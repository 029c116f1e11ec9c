#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

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

/// Checks the options and sets what a command needs, before the model is loaded.
using Prepare = Status (*)(const config::CommandLine& line, config::Config& config);

/// The same, and opens the engine. An error of `prepare` is one of usage.
std::optional<OfflineCommand> open_offline(std::string_view name,
                                           std::span<const config::Option> table,
                                           std::span<const std::string> args, const Host& host,
                                           Prepare prepare, int& exit_code);

/// A batch that is run again and again: the options `counts` are from 1 to 2^20, num-iters-warmup
/// from 0, and input-len and output-len together fit the model. kInvalidArgument names the option.
Status check_batch(const config::CommandLine& line, const OfflineEngine& engine,
                   std::span<const std::string_view> counts);

/// `octavo bench latency`: the time of one batch, repeated.
int run_latency(std::span<const std::string> args, const Host& host);
/// `octavo bench throughput`: a data set through the engine, all at once.
int run_throughput(std::span<const std::string> args, const Host& host);

/// Writes `json` and a newline to `path`; reports a failure. The exit status.
int write_json(const std::string& path, const std::string& json, const Host& host);

}  // namespace octavo::bench
