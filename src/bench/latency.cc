#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "bench/numpy_random.h"
#include "bench/offline_command.h"
#include "bench/statistics.h"

namespace octavo::bench {
namespace {

using config::OptionKind;

constexpr auto kFlags = std::to_array<config::Option>({
    {"input-len", OptionKind::kInt, "32", "Tokens of a prompt."},
    {"output-len", OptionKind::kInt, "128", "Tokens of an answer."},
    {"batch-size", OptionKind::kInt, "8", "Prompts at once."},
    {"n", OptionKind::kInt, "1", "Answers to a prompt."},
    {"use-beam-search", OptionKind::kSwitch, "", "octavo has no beam search.", {}, 0, false},
    {"num-iters-warmup", OptionKind::kInt, "10", "Iterations that are not counted."},
    {"num-iters", OptionKind::kInt, "30", "Iterations."},
    {"profile",
     OptionKind::kSwitch,
     "",
     "octavo writes no traces; octavo bench roofline shows where the time goes.",
     {},
     0,
     false},
    {"output-json", OptionKind::kText, "", "File of the result."},
    {"disable-detokenize", OptionKind::kSwitch, "", "Do not turn tokens into text."},
});
constexpr auto kPercentiles = std::to_array<int>({10, 25, 50, 75, 90, 99});
constexpr auto kCounts =
    std::to_array<std::string_view>({"input-len", "output-len", "batch-size", "n", "num-iters"});

/// One batch would find itself in the cache from its second iteration on.
Status turn_prefix_cache_off(const config::CommandLine&, config::Config& config) {
  auto& enabled = config.engine.cache.enable_prefix_caching;
  if (!enabled) enabled = false;
  return {};
}

/// One batch of random ids below 10,000, as the original draws them.
std::vector<OfflineRequest> make_batch(const config::CommandLine& line, int64_t vocab_size) {
  const auto batch_size = static_cast<size_t>(line.integer("batch-size"));
  const auto input_len = static_cast<size_t>(line.integer("input-len"));
  NumpyLegacy random(0);
  const auto ids = random.randint(0, std::min<int64_t>(10000, vocab_size), batch_size * input_len);
  std::vector<OfflineRequest> batch(batch_size);
  for (size_t i = 0; i < batch_size; ++i) {
    const auto begin = ids.begin() + static_cast<ptrdiff_t>(i * input_len);
    batch[i].prompt.assign(begin, begin + static_cast<ptrdiff_t>(input_len));
    batch[i].max_tokens = line.integer("output-len");
    batch[i].ids_only = line.flag("disable-detokenize");
  }
  return batch;
}

Result<std::vector<double>> measure(OfflineCommand& command) {
  const auto batch = make_batch(command.line, command.engine->vocab_size());
  const auto n = static_cast<int32_t>(command.line.integer("n"));
  for (int64_t i = 0; i < command.line.integer("num-iters-warmup"); ++i) {
    OCTAVO_TRY(command.engine->generate(batch, n));
  }
  std::vector<double> latencies;
  for (int64_t i = 0; i < command.line.integer("num-iters"); ++i) {
    OCTAVO_TRY(const OfflineRun run, command.engine->generate(batch, n));
    latencies.push_back(run.seconds);
  }
  return latencies;
}

}  // namespace

int run_latency(std::span<const std::string> args, const Host& host) {
  int exit_code = 0;
  auto command = open_offline("latency", kFlags, args, host, turn_prefix_cache_off, exit_code);
  if (!command) return exit_code;
  if (const Status status = check_batch(command->line, *command->engine, kCounts); !status.ok()) {
    fmt::print(host.err, "octavo bench latency: error: {}\n", status.error().message);
    return 2;
  }
  const auto latencies = measure(*command);
  if (!latencies.ok()) {
    fmt::print(host.err, "octavo bench latency: error: {}\n", latencies.error().message);
    return 1;
  }
  std::vector<double> sorted = *latencies;
  std::ranges::sort(sorted);
  nlohmann::ordered_json result{{"model_id", command->engine->model()},
                                {"avg_latency", mean(*latencies)},
                                {"latencies", *latencies},
                                {"percentiles", nlohmann::ordered_json::object()}};
  fmt::print(host.out, "Avg latency: {} seconds\n", mean(*latencies));
  for (const int p : kPercentiles) {
    const double value = percentile_of_sorted(sorted, p);
    fmt::print(host.out, "{}% percentile latency: {} seconds\n", p, value);
    result["percentiles"][std::to_string(p)] = value;
  }
  const std::string& path = command->line.text("output-json");
  return path.empty() ? 0 : write_json(path, result.dump(4), host);
}

}  // namespace octavo::bench
