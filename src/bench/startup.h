#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/bench.h"

namespace octavo::bench {

/// `octavo bench startup`: the time from a fresh process to an engine that has computed a token,
/// with the model's files out of and in the page cache.
int run_startup(std::span<const std::string> args, const Host& host);

/// Seconds of each start. Nothing is compiled at a start, so compilation times are 0.
struct StartupTimes {
  std::vector<double> cold;
  std::vector<double> warm;
};

/// The block STARTUP TIME BENCHMARK RESULTS as vLLM's `bench startup` prints it.
std::string format_startup(const StartupTimes& times);
nlohmann::ordered_json startup_json(const StartupTimes& times);

}  // namespace octavo::bench
