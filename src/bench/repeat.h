#pragma once

#include <span>
#include <string>

#include "bench/bench.h"

namespace octavo::bench {

/// `octavo bench repeat`: the same load on two servers in alternation, every run saved, then
/// compared. 0 when all runs were made and compared, 1 otherwise, 2 for a command line that makes
/// no sense.
int run_repeat(std::span<const std::string> args, const Host& host);

}  // namespace octavo::bench
