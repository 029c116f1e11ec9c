#pragma once

#include "config/config.h"

namespace octavo::cli {

/// `octavo serve`: loads the model, serves until a signal has been obeyed or the engine has died.
/// Returns the process's exit code: 0 after a shutdown, 1 when the engine died or the start failed.
int run_serve(const config::Config& config);

}  // namespace octavo::cli
