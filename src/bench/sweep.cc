#include "bench/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace octavo::bench {
namespace {

constexpr int kUsageError = 2;

struct Command {
  std::string_view name;
  std::string_view help;
  int (*run)(std::span<const std::string>, const Host&);
};

constexpr auto kCommands = std::to_array<Command>({
    {"serve", "Run a server and a benchmark under several settings.", run_sweep_serve},
    {"serve_workload", "The same, at several levels of load.", run_sweep_serve_workload},
    {"plot", "Draw the results of a sweep.", run_sweep_plot},
    {"plot_pareto", "Draw throughput against speed per user.", run_sweep_plot_pareto},
});

std::string names() {
  std::string out;
  for (const Command& command : kCommands) {
    if (!out.empty()) out += ",";
    out += command.name;
  }
  return out;
}

}  // namespace

int run_sweep(std::span<const std::string> args, const Host& host) {
  const std::string usage = fmt::format("usage: octavo bench sweep [-h] {{{}}} ...", names());
  if (args.empty() || args[0] == "-h" || args[0] == "--help") {
    fmt::print(host.out, "{}\n\nRuns benchmarks under several settings.\n\ncommands:\n", usage);
    for (const Command& command : kCommands) {
      fmt::print(host.out, "  {:<16}{}\n", command.name, command.help);
    }
    return 0;
  }
  const auto command = std::ranges::find(kCommands, args[0], &Command::name);
  if (command == kCommands.end()) {
    fmt::print(host.err, "{}\noctavo bench sweep: error: invalid choice: '{}' (choose from {})\n",
               usage, args[0], names());
    return kUsageError;
  }
  return command->run(args.subspan(1), host);
}

}  // namespace octavo::bench
