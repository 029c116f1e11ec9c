#pragma once

#include <span>
#include <string>

#include "cli/app.h"

namespace octavo::cli {

/// `octavo bench ...`: gives the bench room what it needs of checkpoints and templates.
int run_bench(std::span<const std::string> args, const Host& host);
/// `octavo tune ...`: the highest rate that keeps goals, and the flags for it.
int run_tune(std::span<const std::string> args, const Host& host);
/// `octavo config record ...`: what a running server runs with.
int run_config(std::span<const std::string> args, const Host& host);

}  // namespace octavo::cli
