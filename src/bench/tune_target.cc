#include "bench/tune_target.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/command_flags.h"
#include "bench/run_record.h"
#include "config/command_line.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr size_t kLogLines = 6;

Error cancelled(std::string why) { return {Code::kCancelled, std::move(why)}; }

/// Percentiles that results show: what people ask for, and the goals'.
std::string percentile_list(const std::vector<Goal>& goals) {
  std::vector<std::string> all{"50", "90", "99"};
  for (const Goal& goal : goals) {
    if (!goal.percentile.empty() && std::ranges::find(all, goal.percentile) == all.end()) {
      all.push_back(goal.percentile);
    }
  }
  return fmt::format("{}", fmt::join(all, ","));
}

}  // namespace

std::string own_program() {
  std::string path(4096, '\0');
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  path.resize(size > 0 ? size_t(size) : 0);
  return path.empty() ? "octavo" : path;
}

Result<nlohmann::ordered_json> read_json_file(const std::string& path) {
  constexpr std::streamoff kMost = std::streamoff{256} << 20;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return Error{Code::kNotFound, fmt::format("cannot read {}", path)};
  if (file.tellg() > kMost) {
    return Error{Code::kInvalidArgument, fmt::format("{} is over 256 MiB", path)};
  }
  file.seekg(0);
  Json json = Json::parse(file, nullptr, false);
  if (json.is_discarded()) {
    return Error{Code::kInvalidArgument, fmt::format("{} is no JSON", path)};
  }
  return json;
}

std::vector<std::string> serve_command(std::vector<std::string> words, int port,
                                       const ServerFlags& flags) {
  for (const auto& [name, value] : flags) set_parameter(words, name, value);
  set_parameter(words, "host", "127.0.0.1");
  set_parameter(words, "port", port);
  return words;
}

Status ProcessTarget::check_time(double seconds) const {
  if (const int signal = StopSignals::caught(); signal != 0) {
    return cancelled(fmt::format("stopped by signal {}", signal));
  }
  const std::chrono::duration<double> left = options_.deadline - Clock::now();
  if (left.count() < seconds) return cancelled("time is up");
  return {};
}

Status ProcessTarget::start(const ServerFlags& flags) {
  stop();
  OCTAVO_TRY(check_time(0));
  constexpr int kTries = 3;  // somebody may take the port before the server does
  ServerCommand command;
  command.log_path = fmt::format("{}/server-{:02}.log", options_.folder, ++num_servers_);
  const auto left = std::chrono::ceil<std::chrono::seconds>(options_.deadline - Clock::now());
  command.ready_timeout = std::min(options_.ready_timeout, left);
  Status status;
  for (int i = 0; i < kTries; ++i) {
    OCTAVO_TRY(const int port, find_free_port());
    command.words = serve_command(options_.serve_words, port, flags);
    auto started = ManagedServer::start(command);
    if (started.ok()) {
      server_ = std::move(*started);
      return {};
    }
    status = started.error();
    if (!is_listening("127.0.0.1", port)) break;
  }
  return StopSignals::caught() != 0 ? check_time(0) : status;
}

void ProcessTarget::stop() {
  if (server_) server_->stop();
  server_.reset();
}

std::optional<std::string> ProcessTarget::value_in_use(const std::string& flag) {
  static const std::map<std::string, const char*> kPlaces = {
      {"max-num-seqs", "/config/scheduler/max_num_seqs"},
      {"max-num-batched-tokens", "/config/scheduler/max_num_batched_tokens"},
      {"performance-mode", "/config/scheduler/performance_mode"},
      {"kv-cache-dtype", "/config/cache/kv_cache_dtype"}};
  const auto place = kPlaces.find(flag);
  if (place == kPlaces.end() || !server_) return std::nullopt;
  const auto facts = collect_server_facts(server_->server(), 0, [] {});
  if (!facts.ok()) return std::nullopt;
  const Json::json_pointer pointer(place->second);
  if (!facts->contains(pointer)) return std::nullopt;
  return parameter_text(facts->at(pointer));
}

std::vector<std::string> ProcessTarget::bench_command(double rate, int64_t num_prompts,
                                                      const std::string& file) const {
  std::vector<std::string> words{own_program(), "bench", "serve"};
  words.insert(words.end(), options_.bench_words.begin(), options_.bench_words.end());
  const std::initializer_list<std::pair<const char*, Json>> settings = {
      {"base-url", server_->url()},
      {"request-rate", config::python_number(rate)},
      {"num-prompts", num_prompts},
      {"seed", options_.seed + num_runs_},
      {"percentile-metrics", "ttft,tpot,itl,e2el"},
      {"metric-percentiles", percentile_list(options_.goals)},
      {"save-result", true},
      {"save-detailed", true},
      {"disable-tqdm", true},
      {"result-dir", options_.folder},
      {"result-filename", file}};
  for (const auto& [name, value] : settings) set_parameter(words, name, value);
  return words;
}

std::string ProcessTarget::describe(const TuneRun& run) const {
  std::string out = fmt::format("    run {}: ", num_runs_);
  for (size_t i = 0; i < options_.goals.size(); ++i) {
    out += fmt::format("{}{} {:.1f} (<= {:g})", i == 0 ? "" : ", ", options_.goals[i].name,
                       run.values_ms[i], options_.goals[i].limit_ms);
  }
  return out + (run.is_good ? ": good" : ": not good: " + run.reason);
}

Result<TuneRun> ProcessTarget::run(double rate, int64_t num_prompts) {
  OCTAVO_TRY(check_time(std::isfinite(rate) ? double(num_prompts) / rate : 0));
  ++num_runs_;
  const std::string rate_text = std::isfinite(rate) ? fmt::format("{:g}", rate) : "inf";
  const std::string name =
      fmt::format("run-{:03}-server-{:02}-{}qps", num_runs_, num_servers_, rate_text);
  TuneRun out;
  out.rate = rate;
  out.result_file = name + ".json";
  server_->reset_caches();
  ChildOptions child_options;
  child_options.output_path = fmt::format("{}/{}.log", options_.folder, name);
  OCTAVO_TRY(ChildProcess child,
             ChildProcess::start(bench_command(rate, num_prompts, out.result_file), child_options));
  const auto status = child.wait_until(options_.deadline);
  if (!status) {
    child.stop(std::chrono::milliseconds(500));
    OCTAVO_TRY(check_time(0));
    return cancelled("time is up");
  }
  if (!server_->is_alive()) {
    return Error{Code::kUnavailable, "the server ended under load: " + server_->describe_end()};
  }
  if (*status != 0) {
    return Error{
        Code::kUnavailable,
        fmt::format("bench serve ended with status {}; the end of {}:\n{}", *status,
                    child_options.output_path, last_lines(child_options.output_path, kLogLines))};
  }
  OCTAVO_TRY(const Json result, read_json_file(options_.folder + "/" + out.result_file));
  const RunVerdict verdict = judge_run(result, options_.goals);
  out.is_good = verdict.is_good;
  out.values_ms = verdict.values_ms;
  out.reason = verdict.reason;
  if (result.is_object() && result.contains("request_throughput") &&
      result["request_throughput"].is_number()) {
    out.request_throughput = result["request_throughput"];
  }
  say_(describe(out));
  return out;
}

}  // namespace octavo::bench
