#pragma once

#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/environment.h"

namespace octavo::cli {

/// What `run` needs from outside.
struct Host {
  config::EnvironmentLookup environment;
  std::vector<std::string> variable_names;  // all that are set
  std::function<int(const config::Config&)> serve;
  std::FILE* out = stdout;
  std::FILE* err = stderr;
};

/// Runs `octavo ARGS` and returns the exit status: 2 for a command line that cannot be read.
int run(std::span<const std::string> args, const Host& host);

}  // namespace octavo::cli
