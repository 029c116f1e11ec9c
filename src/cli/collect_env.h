#pragma once

#include <span>
#include <string>

#include "cli/app.h"

namespace octavo::cli {

/// `octavo collect-env`: prints a report of this machine for an issue, in vLLM's sections. What
/// cannot be found is "Could not collect"; variables that look like secrets are left out.
int run_collect_env(std::span<const std::string> args, const Host& host);

}  // namespace octavo::cli
