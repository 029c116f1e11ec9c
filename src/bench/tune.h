#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "bench/goal.h"
#include "bench/tuner.h"

namespace octavo::bench {

/// `octavo tune ARGS`: the highest request rate that keeps the goals, and the flags that raise it.
/// The exit status: 0 when a rate was found, 1 when none was or the server could not be used, 2 for
/// a command line that cannot be read, 128 + the signal when one ended it.
int run_tune(std::span<const std::string> args, const Host& host);

/// `--knob NAME` or `--knob NAME=VALUE,VALUE`.
Result<Knob> parse_knob(std::string_view text);

/// The summary that is printed at the end. `serve_words`: the command without flags of ours.
std::string format_tune(const TuneResult& result, std::span<const Goal> goals,
                        const std::vector<std::string>& serve_words);
/// The same with every run.
nlohmann::ordered_json tune_json(const TuneResult& result, std::span<const Goal> goals,
                                 const std::vector<std::string>& serve_words);

}  // namespace octavo::bench
