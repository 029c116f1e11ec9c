#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "bench/bench.h"
#include "bench/step_times.h"

namespace octavo::bench {

/// `octavo bench roofline`: the limits of this machine, and what the model reaches of them in each
/// phase and op.
int run_roofline(std::span<const std::string> args, const Host& host);

/// A table: one row a level of memory and an arithmetic, one thread beside all.
std::string format_machine(const Machine& machine);
/// A table a phase. The limit of an op is the longer of its bytes at the read bandwidth and its
/// arithmetic at its unit's rate; ops whose work is not counted have none. Empty without a step.
std::string format_phase(std::string_view name, const PhaseTimes& phase);
/// Everything above as one object; a phase without steps is null.
nlohmann::ordered_json roofline_json(const std::string& model, const Machine& machine,
                                     const StepTimes& times);

}  // namespace octavo::bench
