#pragma once

#include <span>
#include <string>

#include "bench/bench.h"

namespace octavo::bench {

/// `octavo bench sweep {serve,serve_workload,plot,plot_pareto} ...`. The exit status: 2 for a
/// command line that cannot be read, 1 when the sweep could not be finished, 128 + the signal when
/// one ended it.
int run_sweep(std::span<const std::string> args, const Host& host);

// The commands behind it.
int run_sweep_serve(std::span<const std::string> args, const Host& host);
int run_sweep_serve_workload(std::span<const std::string> args, const Host& host);
int run_sweep_plot(std::span<const std::string> args, const Host& host);
int run_sweep_plot_pareto(std::span<const std::string> args, const Host& host);

}  // namespace octavo::bench
