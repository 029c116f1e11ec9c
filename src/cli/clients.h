#pragma once

#include <span>
#include <string>

#include "cli/app.h"

namespace octavo::cli {

// Commands that talk to a running server.

/// `octavo health ...`, also started as vllm-health.
int run_health(std::span<const std::string> args, const Host& host);
/// `octavo chat ...` and `octavo complete ...`: 0 also for SIGINT, SIGTSTP and the end of input; 1
/// when the server cannot be asked.
int run_chat(std::span<const std::string> args, const Host& host);
int run_complete(std::span<const std::string> args, const Host& host);

}  // namespace octavo::cli
