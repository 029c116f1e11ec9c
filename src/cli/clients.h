#pragma once

#include <span>
#include <string>

#include "cli/app.h"

namespace octavo::cli {

// Commands that talk to a running server.

/// `octavo health ...`, also started as vllm-health.
int run_health(std::span<const std::string> args, const Host& host);

}  // namespace octavo::cli
