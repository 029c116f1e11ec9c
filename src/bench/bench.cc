#include "bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "bench/compare_command.h"
#include "bench/offline_command.h"
#include "bench/repeat.h"
#include "bench/roofline.h"
#include "bench/serve.h"
#include "bench/startup.h"
#include "bench/sweep.h"

namespace octavo::bench {
namespace {

constexpr int kUsageError = 2;

using Run = int (*)(std::span<const std::string>, const Host&);
struct Command {
  std::string_view name;
  std::string_view help;
  Run run;  // nullptr: a later version's
};

constexpr auto kCommands = std::to_array<Command>({
    {"serve", "Send requests to a running server and measure the answers.", run_serve},
    {"throughput", "Send a data set through the engine, without a server.", run_throughput},
    {"latency", "Time one batch in the engine, without a server.", run_latency},
    {"roofline", "The machine's limits and what the model reaches of them.", run_roofline},
    {"startup", "Cold and warm start-up times.", run_startup},
    {"sweep", "Run a server and a benchmark under several settings.", run_sweep},
    {"compare", "Compare saved runs whose conditions match.", run_compare},
    {"repeat", "Load two servers in alternation and compare them.", run_repeat},
    {"mm-processor", "Multimodal preprocessing.", nullptr},
    {"forward", "One forward pass.", nullptr},
});

/// Names of what is built, joined by `separator`.
std::string built_names(std::string_view separator) {
  std::string out;
  for (const Command& command : kCommands) {
    if (command.run == nullptr) continue;
    if (!out.empty()) out += separator;
    out += command.name;
  }
  return out;
}

std::string usage() { return fmt::format("usage: octavo bench [-h] {{{}}} ...", built_names(",")); }

void print_help(std::FILE* out) {
  fmt::print(out, "{}\n\nMeasures a server.\n\ncommands:\n", usage());
  for (const Command& command : kCommands) {
    if (command.run != nullptr) fmt::print(out, "  {:<12}{}\n", command.name, command.help);
  }
  fmt::print(out, "\nMore: octavo bench serve --help\n");
}

}  // namespace

int run_bench(std::span<const std::string> args, const Host& host) {
  if (args.empty() || args[0] == "-h" || args[0] == "--help") {
    print_help(host.out);
    return 0;
  }
  const auto command = std::ranges::find(kCommands, args[0], &Command::name);
  if (command == kCommands.end()) {
    fmt::print(host.err, "{}\noctavo bench: error: invalid choice: '{}' (choose from {})\n",
               usage(), args[0], built_names(", "));
    return kUsageError;
  }
  if (command->run == nullptr) {
    fmt::print(host.err,
               "octavo bench: error: octavo knows `bench {}`, but it belongs to a later version\n",
               args[0]);
    return kUsageError;
  }
  return command->run(args.subspan(1), host);
}

}  // namespace octavo::bench
