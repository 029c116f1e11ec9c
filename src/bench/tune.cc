#include "bench/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/child_process.h"
#include "bench/command_flags.h"
#include "bench/serve_flags.h"
#include "bench/serve_options.h"
#include "bench/shell_words.h"
#include "bench/tune_target.h"

namespace octavo::bench {
namespace {

using config::OptionKind;
using Clock = std::chrono::steady_clock;

constexpr int kUsageError = 2;
constexpr int kFailed = 1;

constexpr auto kFlags = std::to_array<config::Option>({
    {"serve-cmd", OptionKind::kText, "", "Command of the server, started on a free local port."},
    {"goal", OptionKind::kRepeat, "", "METRIC_STAT_ms=LIMIT to keep; may be given again."},
    {"knob", OptionKind::kRepeat, "", "NAME or NAME=V1,V2: a server flag to try, in this order."},
    {"repeats", OptionKind::kInt, "3", "Runs at each rate; the majority decides."},
    {"run-seconds", OptionKind::kFloat, "30", "Seconds of sending in a run."},
    {"min-prompts", OptionKind::kInt, "30", "Requests of a run at least."},
    {"min-rate", OptionKind::kFloat, "0.1", "Lowest request rate to try."},
    {"max-rate", OptionKind::kFloat, "10000", "Highest request rate to try."},
    {"resolution", OptionKind::kFloat, "0.1", "Ends when rates differ by this share."},
    {"min-gain", OptionKind::kFloat, "0.05", "A flag must raise the rate by this share at least."},
    {"max-minutes", OptionKind::kFloat, "60", "Ends after this time with what is found."},
    {"server-ready-timeout", OptionKind::kInt, "300", "Seconds for each start of the server."},
    {"output-dir", OptionKind::kText, "tune-results", "Folder of results, records and logs."},
    {"experiment-name", OptionKind::kText, "", "Folder in it; default: the time."},
});

Error invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

/// A readable command line.
struct TuneOptions {
  TunePlan plan;
  TuneTargetOptions target;
  double max_minutes = 0;
};

Status check_range(const config::CommandLine& line, std::string_view name, double low,
                   double high) {
  const double value = line.real(name);
  if (value >= low && value <= high) return {};
  return invalid(fmt::format("--{} must be {:g} to {:g}", name, low, high));
}

Status check_count(const config::CommandLine& line, std::string_view name, int64_t high) {
  const int64_t value = line.integer(name);
  if (value >= 1 && value <= high) return {};
  return invalid(fmt::format("--{} must be 1 to {}", name, high));
}

Result<TunePlan> read_plan(const config::CommandLine& line) {
  OCTAVO_TRY(check_count(line, "repeats", 99));
  OCTAVO_TRY(check_count(line, "min-prompts", 100000));
  OCTAVO_TRY(check_count(line, "server-ready-timeout", 86400));
  OCTAVO_TRY(check_range(line, "run-seconds", 0.1, 86400));
  OCTAVO_TRY(check_range(line, "min-rate", 1e-4, 1e6));
  OCTAVO_TRY(check_range(line, "max-rate", line.real("min-rate"), 1e6));
  OCTAVO_TRY(check_range(line, "resolution", 0.001, 10));
  OCTAVO_TRY(check_range(line, "min-gain", 0.0, 10));
  OCTAVO_TRY(check_range(line, "max-minutes", 0.001, 100000));
  TunePlan plan;
  plan.lowest_rate = line.real("min-rate");
  plan.highest_rate = line.real("max-rate");
  plan.resolution = line.real("resolution");
  plan.least_gain = line.real("min-gain");
  plan.num_repeats = line.integer("repeats");
  plan.run_seconds = line.real("run-seconds");
  plan.least_prompts = line.integer("min-prompts");
  for (const std::string& text : line.list("knob")) {
    OCTAVO_TRY(Knob knob, parse_knob(text));
    plan.knobs.push_back(std::move(knob));
  }
  if (plan.knobs.empty()) plan.knobs = default_knobs();
  return plan;
}

/// The workload: options of bench serve, without those that the search sets itself.
Status read_workload(std::vector<std::string> words, const Host& host, TuneTargetOptions& target) {
  constexpr auto kOurs = std::to_array<std::string_view>(
      {"base-url", "host", "port", "request-rate", "num-prompts", "ramp-up-strategy",
       "ramp-up-start-rps", "ramp-up-end-rps", "self-timed", "save-result", "save-detailed",
       "append-result", "result-dir", "result-filename", "percentile-metrics", "metric-percentiles",
       "disable-tqdm"});
  auto line = config::CommandLine::read(serve_flags(), words);
  if (!line.ok()) return line.error();
  for (const std::string_view name : kOurs) {
    if (line->is_given(name)) {
      return invalid(fmt::format("--{}: octavo tune chooses this itself", name));
    }
  }
  if (line->is_given("max-concurrency")) {
    return invalid(
        "--max-concurrency: requests that wait in the client would hide that the server is late");
  }
  target.seed = line->integer("seed");
  OCTAVO_TRY(read_serve_options(std::move(*line), host.environment, "check-"));
  target.bench_words = std::move(words);
  return {};
}

Result<TuneOptions> read_options(const config::CommandLine& line,
                                 std::vector<std::string> bench_words, const Host& host) {
  TuneOptions options;
  if (line.text("serve-cmd").empty()) return invalid("--serve-cmd is needed");
  if (line.list("goal").empty()) return invalid("at least one --goal is needed");
  auto words = split_shell_words(line.text("serve-cmd"));
  if (!words.ok()) return invalid("--serve-cmd: " + words.error().message);
  options.target.serve_words = std::move(*words);
  for (const std::string& text : line.list("goal")) {
    OCTAVO_TRY(Goal goal, parse_goal(text));
    options.target.goals.push_back(std::move(goal));
  }
  OCTAVO_TRY(options.plan, read_plan(line));
  OCTAVO_TRY(read_workload(std::move(bench_words), host, options.target));
  options.target.ready_timeout = std::chrono::seconds(line.integer("server-ready-timeout"));
  options.max_minutes = line.real("max-minutes");
  std::string name = line.text("experiment-name");
  if (name.empty()) {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::localtime_r(&now, &parts);
    char text[32];
    name.assign(text, std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts));
  }
  options.target.folder = line.text("output-dir") + "/" + name;
  return options;
}

Status make_folder(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder, error)) {
    return invalid(fmt::format("{} exists already; choose another --experiment-name", folder));
  }
  if (!std::filesystem::create_directories(folder, error)) {
    return Error{Code::kUnavailable, fmt::format("cannot make the folder {}", folder)};
  }
  return {};
}

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (!file) return Error{Code::kUnavailable, fmt::format("cannot write {}", path)};
  return {};
}

/// One line a moment, with the time since the start.
class Narrator {
 public:
  explicit Narrator(std::FILE* out) : out_(out) {}
  void operator()(const std::string& text) const {
    const std::chrono::duration<double> passed = Clock::now() - start_;
    fmt::print(out_, "[{:6.0f} s] {}\n", passed.count(), text);
    std::fflush(out_);
  }

 private:
  std::FILE* out_;
  Clock::time_point start_ = Clock::now();
};

Status tune(TuneOptions options, const Host& host, bool& found) {
  OCTAVO_TRY(make_folder(options.target.folder));
  const Narrator say(host.out);
  options.target.deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double, std::ratio<60>>(options.max_minutes));
  say(fmt::format("Results, records and logs: {}; at most {:g} minutes", options.target.folder,
                  options.max_minutes));
  ProcessTarget target(options.target, say);
  auto result = Tuner(options.plan, target, say).run();
  target.stop();
  if (!result.ok()) return result.error();
  const std::vector<std::string>& words = options.target.serve_words;
  const std::string text = format_tune(*result, options.target.goals, words);
  fmt::print(host.out, "{}", text);
  found = result->rate > 0;
  OCTAVO_TRY(write_file(options.target.folder + "/tune.txt", text));
  return write_file(options.target.folder + "/tune.json",
                    tune_json(*result, options.target.goals, words).dump(2) + "\n");
}

int usage_error(const Host& host, const std::string& message) {
  fmt::print(host.err,
             "usage: octavo tune --serve-cmd CMD --goal GOAL [options]\noctavo tune: "
             "error: {}\n",
             message);
  return kUsageError;
}

}  // namespace

Result<Knob> parse_knob(std::string_view text) {
  Knob knob;
  const size_t equals = std::min(text.find('='), text.size());
  std::string_view name = text.substr(0, equals);
  while (name.starts_with('-')) name.remove_prefix(1);
  knob.name = name;
  std::ranges::replace(knob.name, '_', '-');
  constexpr auto kNumbers =
      std::to_array<std::string_view>({"max-num-seqs", "max-num-batched-tokens"});
  std::string_view rest = text.substr(std::min(equals + 1, text.size()));
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    if (comma > 0) knob.values.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (knob.name.empty()) return invalid(fmt::format("--knob {}: there is no name", text));
  if (knob.name == "host" || knob.name == "port") {
    return invalid(fmt::format("--knob {}: octavo tune chooses the address itself", text));
  }
  if (knob.values.empty()) {
    for (const Knob& usual : default_knobs()) {
      if (usual.name == knob.name) knob.values = usual.values;
    }
  }
  const bool climbs = std::ranges::find(kNumbers, knob.name) != kNumbers.end();
  if (knob.values.empty() && !climbs) {
    return invalid(fmt::format("--knob {}: give its values, NAME=V1,V2", text));
  }
  return knob;
}

int run_tune(std::span<const std::string> args, const Host& host) {
  SplitWords words = split_words(kFlags, args);
  auto line = config::CommandLine::read(kFlags, words.own);
  if (!line.ok()) return usage_error(host, line.error().message);
  if (line->wants_help()) {
    fmt::print(host.out,
               "usage: octavo tune --serve-cmd CMD --goal GOAL [options] [options of octavo bench "
               "serve]\n\nFinds the highest request rate at which a server keeps the goals, and "
               "flags that raise it.\n\noptions:\n{}",
               config::describe_options(kFlags));
    return 0;
  }
  auto options = read_options(*line, std::move(words.engine), host);
  if (!options.ok()) return usage_error(host, options.error().message);
  const StopSignals signals;
  bool found = false;
  const Status status = tune(std::move(*options), host, found);
  if (!status.ok()) {
    fmt::print(host.err, "octavo tune: error: {}\n", status.error().message);
    if (status.error().code == Code::kInvalidArgument) return kUsageError;
  }
  if (StopSignals::caught() != 0) return 128 + StopSignals::caught();
  return status.ok() && found ? 0 : kFailed;
}

}  // namespace octavo::bench
