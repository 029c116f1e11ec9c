#pragma once

#include <span>
#include <string>

#include "bench/bench.h"

namespace octavo::bench {

/// `octavo bench serve`: the load generator. Exit status as run_bench.
int run_serve(std::span<const std::string> args, const Host& host);

}  // namespace octavo::bench
