#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "config/command_line.h"

namespace octavo::bench {

/// All options of a command line as an object, as Python's vars() of parsed arguments: names with
/// underscores, infinite numbers as "inf", secrets as "***", null for what is unset.
nlohmann::ordered_json arguments_json(const config::CommandLine& line,
                                      std::span<const config::Option> table);

/// A saved result as records of PyTorch's benchmark database, one for each latency figure
/// (mean, median, std and p99 of TTFT, TPOT and ITL): what vLLM writes when
/// SAVE_TO_PYTORCH_BENCHMARK_FORMAT is set (vllm/benchmarks/lib/utils.py). Where no model is named
/// on the command line ours names the one that was measured.
nlohmann::ordered_json pytorch_records(const nlohmann::ordered_json& result,
                                       const nlohmann::ordered_json& arguments);

}  // namespace octavo::bench
