#pragma once

#include "base/result.h"
#include "bench/step_times.h"
#include "config/config.h"

namespace octavo::cli {

/// Measures caches, memory and arithmetic with one thread and with the engine's. Takes about a
/// second and, while it runs, up to 1 GiB, at most a quarter of what is free. Error: kInternal, no
/// memory for it.
Result<bench::Machine> measure_machine(const config::Config& config);

}  // namespace octavo::cli
