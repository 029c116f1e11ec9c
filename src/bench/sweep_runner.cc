#include "bench/sweep_runner.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/command_flags.h"
#include "bench/shell_words.h"
#include "bench/tune_target.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr size_t kLogLines = 8;
constexpr int64_t kUsualPrompts = 1000;  // of bench serve

template <class... Args>
void say(std::FILE* out, fmt::format_string<Args...> text, Args&&... args) {
  fmt::print(out, text, std::forward<Args>(args)...);
  std::fputc('\n', out);
  std::fflush(out);
}

std::string pretty(const Json& json) {
  return json.dump(4, ' ', true, Json::error_handler_t::replace) + "\n";
}

/// A result that an earlier run left; nullopt: none, or one that was cut off.
std::optional<Json> read_result(const std::string& path) {
  auto json = read_json_file(path);
  if (!json.ok() || !json->is_object()) return std::nullopt;
  return std::move(*json);
}

Json with_parameters(Json result, const SweepItem& serve, const SweepItem& bench, int64_t number) {
  result["run_number"] = number;
  for (const SweepItem* item : {&serve, &bench}) {
    if (!item->name.empty()) result["_benchmark_name"] = item->name;
    for (const auto& [key, value] : item->params.items()) result[key] = value;
  }
  return result;
}

double number_of(const Json& run, const char* key) {
  return run.contains(key) && run[key].is_number() ? run[key].get<double>() : 0;
}

/// Mean over runs of the load that they carried, in the unit of the variable.
double mean_load(const std::vector<Json>& runs, const std::string& variable) {
  double sum = 0;
  for (const Json& run : runs) {
    const double rate = number_of(run, "request_throughput");
    // Little: requests under way = rate x time that each takes.
    sum += variable == "request_rate" ? rate : rate * number_of(run, "mean_e2el_ms") / 1000;
  }
  return runs.empty() ? 0 : sum / double(runs.size());
}

int64_t num_prompts(const SweepItem& bench, const std::vector<std::string>& words) {
  const std::string text = find_flag(bench.apply(words), "num-prompts");
  const long value = std::strtol(text.c_str(), nullptr, 10);
  return value > 0 ? value : kUsualPrompts;
}

std::string csv_field(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  std::string text = parameter_text(value);
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  for (size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2)
    text.insert(at, "\"");
  return "\"" + text + "\"";
}

}  // namespace

Status write_whole(const std::string& path, const std::string& text) {
  const std::string draft = path + ".part";
  std::ofstream file(draft, std::ios::trunc);
  file << text;
  file.close();
  std::error_code error;
  if (file) fs::rename(draft, path, error);
  if (!file || error) return Error{Code::kUnavailable, fmt::format("cannot write {}", path)};
  return {};
}

std::string to_csv(const std::vector<Json>& rows) {
  std::vector<std::string> columns;
  for (const Json& row : rows) {
    for (const auto& [key, value] : row.items()) {
      if (std::ranges::find(columns, key) == columns.end()) columns.push_back(key);
    }
  }
  std::string out;
  for (const std::string& column : columns) out += "," + csv_field(column);
  out += "\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    out += std::to_string(i);
    for (const std::string& column : columns) {
      out += "," + (rows[i].contains(column) ? csv_field(rows[i][column]) : "");
    }
    out += "\n";
  }
  return out;
}

template <class Pairs>
Status SweepRunner::for_each_server(Pairs run_pairs) {
  for (const SweepItem& serve : options_.serve_params) {
    server_failed_ = false;
    const Status status = run_pairs(serve);
    stop_server();
    if (!status.ok()) return status.error();
  }
  if (options_.is_dry_run) return {};
  if (!all_.empty()) {
    OCTAVO_TRY(write_whole(options_.folder + "/summary.csv", to_csv(all_)));
  }
  if (num_failures_ == 0) return {};
  const std::string text = fmt::format(
      "{} failed; .failure.json files in {} tell why. --resume tries again what is missing",
      num_failures_ == 1 ? "One run or server" : fmt::format("{} runs or servers", num_failures_),
      options_.folder);
  if (all_.empty()) return Error{Code::kUnavailable, text};
  say(out_, "WARNING: {}", text);
  return {};
}

Status SweepRunner::run() {
  return for_each_server([this](const SweepItem& serve) -> Status {
    for (const SweepItem& bench : options_.bench_params) {
      if (!is_linked(serve, bench, options_.links)) continue;
      OCTAVO_TRY(Runs runs, run_pair(serve, bench, pair_folder(serve, bench)));
      for (Json& run : runs) all_.push_back(std::move(run));
    }
    return {};
  });
}

Status SweepRunner::run_workload(const WorkloadOptions& workload) {
  return for_each_server([&](const SweepItem& serve) -> Status {
    for (const SweepItem& bench : options_.bench_params) {
      if (!is_linked(serve, bench, options_.links)) continue;
      OCTAVO_TRY(explore(serve, bench, workload));
    }
    return {};
  });
}

Status SweepRunner::explore(const SweepItem& serve, const SweepItem& bench,
                            const WorkloadOptions& workload) {
  const int64_t dataset_size = num_prompts(bench, options_.bench_words);
  say(out_,
      "[WL START]\nServe parameters: {}\nBench parameters: {}\nNumber of workload iterations: {}\n"
      "Dataset size: {}",
      serve.params.empty() ? "(None)" : serve.as_text(", "),
      bench.params.empty() ? "(None)" : bench.as_text(", "), workload.num_levels, dataset_size);
  const auto run_level = [&](const SweepItem& item, int64_t level) {
    const std::string extra = fmt::format("WL--{}={}", workload.variable, level);
    return run_pair(serve, item.with(workload.variable, level), pair_folder(serve, bench, extra));
  };
  OCTAVO_TRY(Runs serial, run_level(bench.with("max_concurrency", 1), 1));
  OCTAVO_TRY(Runs batch, run_level(bench.with("max_concurrency", dataset_size), dataset_size));
  Runs between;
  if (options_.is_dry_run) {
    say(out_, "The levels between follow from what these two measure.");
  } else if (serial.empty() || batch.empty()) {
    say(out_, "One of the ends could not be measured; the levels between are left out.");
  } else {
    const auto low = int64_t(std::ceil(mean_load(serial, workload.variable)));
    const auto high = int64_t(std::floor(mean_load(batch, workload.variable)));
    say(out_, "Serial inference: {}={}\nBatch inference: {}={}", workload.variable, low,
        workload.variable, high);
    for (const int64_t level : inner_levels(low, high, workload.num_levels)) {
      if (level == 1 || level == dataset_size) continue;  // the folders of the ends
      say(out_, "Exploring: {}={}", workload.variable, level);
      OCTAVO_TRY(Runs runs, run_level(bench, level));
      for (Json& run : runs) between.push_back(std::move(run));
    }
  }
  say(out_, "[WL END]");
  for (Runs* runs : {&serial, &between, &batch}) {
    for (Json& run : *runs) all_.push_back(std::move(run));
  }
  return {};
}

Result<SweepRunner::Runs> SweepRunner::run_pair(const SweepItem& serve, const SweepItem& bench,
                                                const std::string& folder) {
  const std::string path = options_.folder + "/" + folder;
  Runs runs;
  if (options_.warmup_num_prompts > 0 && !fs::exists(path + "/summary.json")) {
    const SweepItem warm_up = bench.with("num_prompts", options_.warmup_num_prompts);
    OCTAVO_TRY(run_once(serve, warm_up, path + "/warmup.json", -1));
  }
  for (int64_t number = 0; number < options_.num_runs; ++number) {
    const std::string file = fmt::format("{}/run={}.json", path, number);
    OCTAVO_TRY(std::optional<Json> run, run_once(serve, bench, file, number));
    if (run) runs.push_back(std::move(*run));
  }
  if (runs.empty()) return runs;
  OCTAVO_TRY(write_whole(path + "/summary.json", pretty(Json(runs))));
  return runs;
}

Result<std::optional<Json>> SweepRunner::run_once(const SweepItem& serve, const SweepItem& bench,
                                                  const std::string& path, int64_t number) {
  say(out_,
      "[BEGIN BENCHMARK]\nServe overrides: {}\nBenchmark overrides: {}\nRun number: {}\nOutput "
      "file: {}",
      serve.params.empty() ? "(None)" : serve.as_text(", "),
      bench.params.empty() ? "(None)" : bench.as_text(", "), number, path);
  if (auto found = read_result(path)) {
    say(out_, "Found existing results.\n[SKIPPED BENCHMARK]");
    return std::optional(with_parameters(std::move(*found), serve, bench, number));
  }
  if (options_.is_dry_run) {
    say(out_, "Server command: {}\nBenchmark command: {}\n[END BENCHMARK]",
        join_shell_words(serve.apply(options_.serve_words)),
        join_shell_words(bench.apply(options_.bench_words)));
    return std::optional<Json>();
  }
  auto result = measure(serve, bench, path, number);
  if (result.ok()) {
    say(out_, "[END BENCHMARK]");
    return std::optional(std::move(*result));
  }
  const Error error = result.error();
  if (error.code == Code::kCancelled || !options_.continue_on_error) return error;
  if (server_failed_) return std::optional<Json>();  // noted once
  OCTAVO_TRY(note_failure(path, serve, &bench, number, error));
  return std::optional<Json>();
}

Result<Json> SweepRunner::measure(const SweepItem& serve, const SweepItem& bench,
                                  const std::string& path, int64_t number) {
  std::error_code ignored;
  const fs::path target(path);
  fs::create_directories(target.parent_path(), ignored);
  if (!server_ || !server_->is_alive()) OCTAVO_TRY(start_server(serve));
  std::vector<std::string> words = bench.apply(options_.bench_words);
  set_parameter(words, "percentile-metrics", "ttft,tpot,itl,e2el");
  set_parameter(words, "save-result", true);
  set_parameter(words, "result-dir", target.parent_path().string());
  set_parameter(words, "result-filename", target.filename().string());
  say(out_, "Benchmark command: {}", join_shell_words(words));
  const std::string log_path = fs::path(target).replace_extension(".log").string();
  OCTAVO_TRY(run_command(words, log_path));
  if (!server_->is_alive()) {
    return Error{Code::kUnavailable, "the server ended under load: " + server_->describe_end()};
  }
  OCTAVO_TRY(after_bench(log_path));
  auto result = read_json_file(path);
  if (!result.ok() || !result->is_object()) {
    return Error{Code::kUnavailable,
                 fmt::format("the benchmark command left no result at {}", path)};
  }
  Json run = with_parameters(std::move(*result), serve, bench, number);
  OCTAVO_TRY(write_whole(path, pretty(run)));
  return run;
}

Status SweepRunner::run_command(const std::vector<std::string>& words,
                                const std::string& log_path) {
  ChildOptions options;
  if (!options_.shows_output) options.output_path = log_path;
  OCTAVO_TRY(ChildProcess child, ChildProcess::start(words, options));
  const auto status = child.wait_until(ChildProcess::Clock::time_point::max());
  if (!status) {
    child.stop(std::chrono::milliseconds(500));
    return Error{Code::kCancelled, fmt::format("stopped by signal {}", StopSignals::caught())};
  }
  if (*status == 0) return {};
  std::string message = fmt::format("'{}' ended with status {}", words[0], *status);
  const std::string lines = options_.shows_output ? "" : last_lines(log_path, kLogLines);
  if (!lines.empty()) message += fmt::format("; the end of {}:\n{}", log_path, lines);
  return Error{Code::kUnavailable, std::move(message)};
}

Status SweepRunner::start_server(const SweepItem& serve) {
  stop_server();
  if (server_failed_) return Error{Code::kUnavailable, "its server could not be started"};
  ServerCommand command;
  command.words = serve.apply(options_.serve_words);
  command.ready_timeout = options_.ready_timeout;
  if (!options_.shows_output) {
    command.log_path = options_.folder + "/" + serve_folder(serve) + ".log";
  }
  say(out_, "[BEGIN SERVER]\nServer overrides: {}\nServer command: {}",
      serve.params.empty() ? "(None)" : serve.as_text(", "), join_shell_words(command.words));
  auto started = ManagedServer::start(command);
  if (started.ok()) {
    server_ = std::move(*started);
    return {};
  }
  if (started.error().code != Code::kCancelled) {
    server_failed_ = true;
    OCTAVO_TRY(note_failure(options_.folder + "/" + serve_folder(serve) + ".json", serve, nullptr,
                            -1, started.error()));
  }
  return started.error();
}

void SweepRunner::stop_server() {
  if (!server_) return;
  server_->stop();
  server_.reset();
  say(out_, "[END SERVER]");
}

Status SweepRunner::after_bench(const std::string& log_path) {
  if (!options_.after_bench_words.empty()) {
    return run_command(options_.after_bench_words, log_path);
  }
  if (server_->reset_caches() || said_no_reset_) return {};
  said_no_reset_ = true;
  say(out_,
      "WARNING: the server has no route that resets its caches: runs after the first may find "
      "their "
      "prompts there. --after-bench-cmd can do it another way.");
  return {};
}

Status SweepRunner::note_failure(const std::string& path, const SweepItem& serve,
                                 const SweepItem* bench, int64_t number, const Error& error) {
  ++num_failures_;
  const std::string file = fs::path(path).replace_extension(".failure.json").string();
  Json note{{"run_number", bench == nullptr ? Json() : Json(number)},
            {"error", error.message},
            {"serve_overrides", serve.params},
            {"bench_overrides", bench == nullptr ? Json() : bench->params}};
  say(out_, "[FAILED {}] {}\nFailure details: {}", bench == nullptr ? "SERVER" : "BENCHMARK",
      error.message, file);
  return write_whole(file, pretty(note));
}

}  // namespace octavo::bench
