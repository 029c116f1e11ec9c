#pragma once

#include <span>
#include <string>

#include "bench/bench.h"
#include "bench/compare.h"
#include "config/command_line.h"

namespace octavo::bench {

/// `octavo bench compare`: 0 when it compared, 1 when conditions differ or a run cannot be read, 2
/// for a command line that makes no sense.
int run_compare(std::span<const std::string> args, const Host& host);

/// `--variable` and `--min-effect`, which `compare` and `repeat` share. Error: kInvalidArgument.
Result<CompareOptions> read_compare_options(const config::CommandLine& line);

/// Where a comparison is written beside standard output; empty: not.
struct ComparisonFiles {
  std::string markdown;
  std::string json;
  std::string html;
};

/// Prints the page and writes the files. Error: one cannot be written.
Status publish_comparison(const Comparison& comparison, const ComparisonFiles& files,
                          std::FILE* out);

}  // namespace octavo::bench
