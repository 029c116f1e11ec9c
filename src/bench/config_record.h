#pragma once

#include <span>
#include <string>

#include "bench/bench.h"

namespace octavo::bench {

/// `octavo config record --url URL`: prints what a running server tells of itself, as the filled-in
/// page or as JSON. Exit status as run_bench.
int run_config(std::span<const std::string> args, const Host& host);

}  // namespace octavo::bench
