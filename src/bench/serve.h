#pragma once

#include <span>
#include <string>

#include "bench/bench.h"
#include "bench/serve_options.h"
#include "bench/serve_report.h"

namespace octavo::bench {

/// `octavo bench serve`: the load generator. Exit status as run_bench.
int run_serve(std::span<const std::string> args, const Host& host);

/// Makes one run, prints and saves as the command does. `arguments`: the command line for its
/// record, secrets hidden. Errors: the run could not be made; failed requests are none.
Result<ServeReport> make_serve_run(ServeOptions options, std::string arguments, const Host& host);

}  // namespace octavo::bench
