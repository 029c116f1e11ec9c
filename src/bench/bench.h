#pragma once

#include <cstdio>
#include <span>
#include <string>

#include "bench/offline.h"
#include "bench/text_model.h"
#include "config/environment.h"

namespace octavo::bench {

/// What the bench commands need from outside.
struct Host {
  config::EnvironmentLookup environment;
  TextModelLoader load_text_model;
  OfflineEngineOpener open_engine;
  MachineMeasurer measure_machine;
  ModelFileLister list_model_files;
  std::FILE* out = stdout;
  std::FILE* err = stderr;
};

/// Runs `octavo bench ARGS`; the exit status: 2 for a command line that cannot be read, 1 when the
/// run could not be made, 0 otherwise, also when requests failed.
int run_bench(std::span<const std::string> args, const Host& host);

}  // namespace octavo::bench
