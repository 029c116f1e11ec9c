#pragma once

#include <cstdio>
#include <span>
#include <string>

#include "config/environment.h"

namespace octavo::health {

/// What the probe needs from outside.
struct Host {
  config::EnvironmentLookup environment;
  std::FILE* out = stdout;
  std::FILE* err = stderr;
};

/// Runs `octavo health ARGS`: 0 all checks passed, 1 a finding or a fatal error, 2 a command line
/// that cannot be read, 124 out of time.
int run_health(std::span<const std::string> args, const Host& host);

}  // namespace octavo::health
