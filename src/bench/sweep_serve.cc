#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>

#include "bench/child_process.h"
#include "bench/shell_words.h"
#include "bench/sweep.h"
#include "bench/sweep_runner.h"

namespace octavo::bench {
namespace {

using config::CommandLine;
using config::Option;
using config::OptionKind;

constexpr int kUsageError = 2;
constexpr int kFailed = 1;

constexpr auto kFlags = std::to_array<Option>({
    {"serve-cmd", OptionKind::kText, "", "Command of the server."},
    {"bench-cmd", OptionKind::kText, "", "Command of the benchmark, of bench serve's form."},
    {"after-bench-cmd", OptionKind::kText, "", "Run after each run; default: reset the caches."},
    {"serve-params", OptionKind::kText, "", "JSON file of the server's parameters."},
    {"bench-params", OptionKind::kText, "", "JSON file of the benchmark's parameters."},
    {"link-vars", OptionKind::kText, "", "SERVE=BENCH,...: only pairs in which these are equal."},
    {"output-dir", OptionKind::kText, "results", "Folder of experiments.", {}, 'o'},
    {"experiment-name", OptionKind::kText, "", "Folder in it; default: the time.", {}, 'e'},
    {"num-runs", OptionKind::kInt, "3", "Runs of each combination."},
    {"warmup-num-prompts", OptionKind::kInt, "0", "Requests of a run before, not counted."},
    {"server-ready-timeout", OptionKind::kInt, "300", "Seconds for each start of the server."},
    {"continue-on-error", OptionKind::kSwitch, "", "Note what fails and go on."},
    {"dry-run", OptionKind::kSwitch, "", "Print the commands, run none."},
    {"resume", OptionKind::kSwitch, "", "Make what is missing in an experiment."},
    {"show-stdout", OptionKind::kSwitch, "", "Show what the commands print; else it is logged."},
});
constexpr auto kWorkloadFlags = std::to_array<Option>({
    {"workload-var", OptionKind::kChoice, "request_rate", "What is varied.",
     "request_rate max_concurrency"},
    {"workload-iters", OptionKind::kInt, "10", "Levels of load, both ends included."},
});

Error invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

Result<std::vector<std::string>> read_command(const CommandLine& line, std::string_view name,
                                              bool is_required) {
  if (!line.is_given(name)) {
    if (is_required) return invalid(fmt::format("--{} is needed", name));
    return std::vector<std::string>();
  }
  auto words = split_shell_words(line.text(name));
  if (!words.ok()) return invalid(fmt::format("--{}: {}", name, words.error().message));
  return words;
}

Result<std::vector<SweepItem>> read_params(const CommandLine& line, std::string_view name) {
  if (!line.is_given(name)) return std::vector<SweepItem>(1);  // the command as it is
  return read_param_sweep(line.text(name));
}

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y%m%d_%H%M%S", &parts)};
}

Status check_counts(const CommandLine& line) {
  constexpr int64_t kMost = 1000000;
  for (const auto& [name, least] : std::initializer_list<std::pair<const char*, int64_t>>{
           {"num-runs", 1}, {"warmup-num-prompts", 0}, {"server-ready-timeout", 1}}) {
    const int64_t value = line.integer(name);
    if (value < least || value > kMost) {
      return invalid(fmt::format("--{} must be {} to {}", name, least, kMost));
    }
  }
  return {};
}

/// Two pairs may not share a folder: one would take the other's results for its own.
Status check_folders(const SweepOptions& options) {
  std::vector<std::string> folders;
  for (const SweepItem& serve : options.serve_params) {
    for (const SweepItem& bench : options.bench_params) {
      if (is_linked(serve, bench, options.links)) folders.push_back(pair_folder(serve, bench));
    }
  }
  if (folders.empty()) return invalid("--link-vars leaves no combination");
  std::ranges::sort(folders);
  const auto twice = std::ranges::adjacent_find(folders);
  if (twice == folders.end()) return {};
  return invalid(
      fmt::format("two combinations would share the folder {}: name them with "
                  "_benchmark_name",
                  *twice));
}

Result<SweepOptions> read_options(const CommandLine& line) {
  if (!line.positionals().empty()) {
    return invalid("unrecognized arguments: " + line.positionals()[0]);
  }
  SweepOptions options;
  OCTAVO_TRY(check_counts(line));
  OCTAVO_TRY(options.serve_words, read_command(line, "serve-cmd", true));
  OCTAVO_TRY(options.bench_words, read_command(line, "bench-cmd", true));
  OCTAVO_TRY(options.after_bench_words, read_command(line, "after-bench-cmd", false));
  OCTAVO_TRY(options.serve_params, read_params(line, "serve-params"));
  OCTAVO_TRY(options.bench_params, read_params(line, "bench-params"));
  OCTAVO_TRY(options.links, parse_link_vars(line.text("link-vars")));
  OCTAVO_TRY(check_folders(options));
  options.num_runs = line.integer("num-runs");
  options.warmup_num_prompts = line.integer("warmup-num-prompts");
  options.ready_timeout = std::chrono::seconds(line.integer("server-ready-timeout"));
  options.continue_on_error = line.flag("continue-on-error");
  options.is_dry_run = line.flag("dry-run");
  options.shows_output = line.flag("show-stdout");
  const std::string name =
      line.is_given("experiment-name") ? line.text("experiment-name") : local_time();
  if (name.empty() || name == "." || name.find("..") != std::string::npos) {
    return invalid(fmt::format("--experiment-name '{}' is no name of a folder", name));
  }
  options.folder = line.text("output-dir") + "/" + name;
  return options;
}

/// The experiment's folder: new, or with --resume an old one.
Status prepare_folder(const SweepOptions& options, bool resumes) {
  std::error_code error;
  const bool exists = std::filesystem::exists(options.folder, error);
  if (resumes && !exists) return invalid(fmt::format("nothing to resume at {}", options.folder));
  if (!resumes && exists) {
    return invalid(fmt::format("{} exists already; --resume goes on with it", options.folder));
  }
  if (exists || options.is_dry_run) return {};
  if (std::filesystem::create_directories(options.folder, error)) return {};
  return Error{Code::kUnavailable, fmt::format("cannot make the folder {}", options.folder)};
}

Result<WorkloadOptions> read_workload(const CommandLine& line, const SweepOptions& options) {
  WorkloadOptions workload{line.text("workload-var"), line.integer("workload-iters")};
  if (workload.num_levels < 2 || workload.num_levels > 1000) {
    return invalid("--workload-iters must be 2 to 1000");
  }
  for (const SweepItem& bench : options.bench_params) {
    if (bench.sets(workload.variable)) {
      return invalid(
          fmt::format("--bench-params sets {}, which is to be explored", workload.variable));
    }
  }
  return workload;
}

class SweepCommand {
 public:
  SweepCommand(std::string_view name, const Host& host) : name_(name), host_(host) {}

  int run(std::span<const std::string> args, bool has_workload) {
    std::vector<Option> table(kFlags.begin(), kFlags.end());
    if (has_workload) table.insert(table.end(), kWorkloadFlags.begin(), kWorkloadFlags.end());
    const auto line = CommandLine::read(table, args);
    if (!line.ok()) return fail(line.error());
    if (line->wants_help()) {
      fmt::print(host_.out,
                 "usage: octavo bench sweep {} --serve-cmd CMD --bench-cmd CMD [options]\n\n"
                 "options:\n{}",
                 name_, config::describe_options(table));
      return 0;
    }
    const auto options = read_options(*line);
    if (!options.ok()) return fail(options.error());
    WorkloadOptions workload;
    if (has_workload) {
      auto read = read_workload(*line, *options);
      if (!read.ok()) return fail(read.error());
      workload = std::move(*read);
    }
    if (const Status status = prepare_folder(*options, line->flag("resume")); !status.ok()) {
      return fail(status.error());
    }
    const StopSignals signals;
    SweepRunner runner(*options, host_.out);
    const Status status = has_workload ? runner.run_workload(workload) : runner.run();
    if (status.ok()) {
      fmt::print(host_.out, "Experiment {} saved at: {}\n",
                 options->is_dry_run ? "will be" : "has been", options->folder);
      return 0;
    }
    fmt::print(host_.err,
               "octavo bench sweep {}: error: {}\nThe sweep ended early. --resume with "
               "--experiment-name goes on where it stopped.\n",
               name_, status.error().message);
    return StopSignals::caught() != 0 ? 128 + StopSignals::caught() : kFailed;
  }

 private:
  int fail(const Error& error) {
    fmt::print(host_.err, "octavo bench sweep {}: error: {}\n", name_, error.message);
    return error.code == Code::kInvalidArgument ? kUsageError : kFailed;
  }

  const std::string_view name_;
  const Host& host_;
};

}  // namespace

int run_sweep_serve(std::span<const std::string> args, const Host& host) {
  return SweepCommand("serve", host).run(args, false);
}

int run_sweep_serve_workload(std::span<const std::string> args, const Host& host) {
  return SweepCommand("serve_workload", host).run(args, true);
}

}  // namespace octavo::bench
