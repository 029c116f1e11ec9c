#pragma once

#include "config/config.h"

namespace octavo::cli {

/// Runs the server until a signal ends it. Exit status: 0 after a clean shutdown, else 1.
int run_serve(const config::Config& config);

}  // namespace octavo::cli
