#include "bench/serve.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "bench/load_driver.h"
#include "bench/load_sampler.h"
#include "bench/progress_bar.h"
#include "bench/pytorch_records.h"
#include "bench/record_page.h"
#include "bench/run_record.h"
#include "bench/serve_flags.h"
#include "bench/serve_options.h"
#include "bench/serve_plots.h"
#include "bench/serve_report.h"
#include "bench/server_queries.h"
#include "config/version.h"

namespace octavo::bench {
namespace {

constexpr int kUsageError = 2;
constexpr int kFailed = 1;
constexpr double kMaxWaitForHashS = 30;

using Clock = std::chrono::steady_clock;

std::string local_time(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof(text), format, &parts)};
}

/// Local time with microseconds, ISO 8601.
std::string iso_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now).count() % 1000000;
  return fmt::format("{}.{:06}", local_time("%Y-%m-%dT%H:%M:%S"), micros);
}

/// One run of `bench serve`, step by step.
class ServeRun {
 public:
  ServeRun(ServeOptions options, std::string arguments, const Host& host)
      : options_(std::move(options)),
        arguments_(std::move(arguments)),
        host_(host),
        random_(options_.seed) {}

  Status run() {
    server_ = {options_.base, options_.headers, options_.verify_tls};
    OCTAVO_TRY(find_model());
    OCTAVO_TRY(load_tokenizer());
    OCTAVO_TRY(prepare_requests());
    OCTAVO_TRY(const Arrivals arrivals, plan_arrivals(options_.arrivals, requests_, random_.numpy));
    assign_adapters();
    raise_descriptor_limit();
    LoadDriver driver(make_target());
    OCTAVO_TRY(wait_until_ready(driver));
    warm_up(driver);
    if (options_.profiles) OCTAVO_TRY(set_profiler("/start_profile", "Starting", "started"));
    print_load_shape();
    const auto metrics_before = read_metrics(server_);
    const NoiseReading noise_before = read_noise();
    std::optional<LoadSampler> sampler;
    if (options_.saves) sampler.emplace(server_);
    const BatchResult result = measure(driver, arrivals);
    const LoadPeaks peaks = sampler ? sampler->stop() : LoadPeaks();
    const NoiseReading noise_after = read_noise();
    const auto metrics_after = read_metrics(server_);
    if (options_.profiles) OCTAVO_TRY(set_profiler("/stop_profile", "Stopping", "stopped"));
    report_run(result);
    report_spec_decode(metrics_before, metrics_after);
    fmt::print(host_.out, "{}", format_failures(report_.outcomes));
    report_client(result);
    fmt::print(host_.out, "{}", format_block(report_));
    OCTAVO_TRY(make_result_folder());
    OCTAVO_TRY(save_plots());
    if (!options_.saves) return {};
    OCTAVO_TRY(save());
    nlohmann::ordered_json record = make_record(result);
    record["noise"] = describe_noise(noise_before, noise_after);
    record["gpu_state"] = sampler->gpu_state();
    record["metrics_delta"] = counter_gains(metrics_before, metrics_after);
    record["prefix_cache"] =
        describe_prefix_cache(record["server"], metrics_before, record["metrics_delta"]);
    record["kv_cache"] = describe_peaks(peaks);
    return save_record(record);
  }

  ServeReport take_report() { return std::move(report_); }

 private:
  template <class... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) {
    fmt::print(host_.out, text, std::forward<Args>(args)...);
    std::fputc('\n', host_.out);
    std::fflush(host_.out);
  }

  Status find_model() {
    if (!options_.model.empty()) {
      model_id_ = options_.model;
      model_name_ = options_.served_model_name.empty() ? model_id_ : options_.served_model_name;
      tokenizer_path_ = options_.tokenizer.empty() ? model_id_ : options_.tokenizer;
      return {};
    }
    say("Model not specified, fetching first model from server...");
    OCTAVO_TRY(const std::vector<ServedModel> models, list_models(server_));
    model_name_ = models[0].id;
    model_id_ = models[0].root;
    tokenizer_path_ = options_.tokenizer.empty() ? model_id_ : options_.tokenizer;
    say("First model name: {}, first model id: {}", model_name_, model_id_);
    return {};
  }

  /// The tokenizer's folder or file: as named, else where the server says that the model lies.
  void resolve_tokenizer_path() {
    std::error_code error;
    if (std::filesystem::exists(tokenizer_path_, error) || !options_.tokenizer.empty()) return;
    const auto models = list_models(server_);
    if (!models.ok()) return;
    for (const ServedModel& model : *models) {
      if (model.id == model_name_ && std::filesystem::exists(model.root, error)) {
        tokenizer_path_ = model.root;
        return;
      }
    }
  }

  Status load_tokenizer() {
    if (options_.skip_tokenizer_init) return {};
    resolve_tokenizer_path();
    auto loaded = host_.load_text_model(tokenizer_path_);
    if (!loaded.ok()) {
      return Error{loaded.error().code,
                   fmt::format("no tokenizer at '{}': {}; name a folder or GGUF file with "
                               "--tokenizer, or use --skip-tokenizer-init",
                               tokenizer_path_, loaded.error().message)};
    }
    model_ = std::make_unique<TextModel>(std::move(*loaded));
    return {};
  }

  Status prepare_requests() {
    std::vector<std::string> notes;
    OCTAVO_TRY(requests_, sample_requests(options_.dataset, model_.get(), random_, notes));
    const std::string& name = options_.dataset.name;
    if (name == "random" || name == "prefix_repetition") {
      align_prompts(server_, model_name_, requests_, notes);
    }
    for (const std::string& note : notes) say("{}", note);
    if (!options_.has_temperature && !options_.backend->is_pooling) {
      say("WARNING: temperature is not set, so the server's default is used, which need not be "
          "greedy. Add --temperature=0 for greedy sampling.");
    }
    return {};
  }

  void assign_adapters() {
    const std::vector<std::string>& names = options_.lora_modules;
    if (names.empty()) return;
    for (size_t i = 0; i < requests_.size(); ++i) {
      const size_t choice =
          options_.lora_round_robin ? i % names.size() : random_.python.below(names.size());
      requests_[i].model = names[choice];
    }
  }

  Target make_target() const {
    Target target;
    target.origin = options_.base.origin;
    target.path = options_.base.path + options_.endpoint;
    target.headers = options_.headers;
    target.client.verify_tls = options_.verify_tls;
    target.client.max_idle_connections = 65536;
    target.payload = {options_.backend->wire, model_name_, options_.logprobs, options_.ignore_eos,
                      options_.extra_body};
    return target;
  }

  Batch batch_of(std::span<const SampleRequest> requests) const {
    Batch batch;
    batch.requests = requests;
    batch.max_concurrency = options_.max_concurrency;
    return batch;
  }

  Status wait_until_ready(LoadDriver& driver) {
    const auto timeout = std::chrono::seconds(options_.ready_check_timeout_s);
    if (timeout.count() <= 0) {
      say("Skipping endpoint ready check.");
      return {};
    }
    say("Waiting for endpoint to become up in {} seconds", timeout.count());
    constexpr auto kRetry = std::chrono::seconds(5);
    const SampleRequest test = test_request();
    for (const auto deadline = Clock::now() + timeout;;) {
      const BatchResult result = driver.run(batch_of({&test, 1}));
      if (result.outcomes[0].success) break;
      const auto left = deadline - Clock::now();
      if (left <= Clock::duration::zero()) {
        return Error{Code::kUnavailable,
                     "Initial test run failed - Please make sure benchmark arguments are correctly "
                     "specified. Error: " +
                         result.outcomes[0].error};
      }
      fmt::print(host_.err, "Endpoint is not ready. Error='{}'\n", result.outcomes[0].error);
      pause(std::min<Clock::duration>(kRetry, left));
    }
    say("Initial test run completed.");
    return {};
  }

  static void pause(Clock::duration duration) {
    const timespec time{std::chrono::duration_cast<std::chrono::seconds>(duration).count(),
                        (duration % std::chrono::seconds(1)).count()};
    ::nanosleep(&time, nullptr);
  }

  /// The first request, without the id and adapter that belong to the measured one.
  SampleRequest test_request() const {
    SampleRequest test = requests_[0];
    test.request_id.clear();
    test.model.clear();
    return test;
  }

  void warm_up(LoadDriver& driver) {
    if (options_.num_warmups > 0) {
      say("Warming up with {} requests...", options_.num_warmups);
      const std::vector<SampleRequest> copies(size_t(options_.num_warmups), test_request());
      ProgressBar bar(host_.err, copies.size(), options_.has_progress_bar);
      Batch batch = batch_of(copies);
      batch.on_finished = [&](size_t done) { bar.update(done); };
      driver.run(batch);
      bar.close();
      say("Warmup run completed.");
    }
    say("Starting main benchmark run...");
  }

  /// A server that has no profiler ends the run: its figures would be taken for a profile's.
  Status set_profiler(const std::string& path, const char* before, const char* after) {
    say("{} profiler...", before);
    OCTAVO_TRY(post_control(server_, path));
    say("Profiler {}", after);
    return {};
  }

  void print_load_shape() {
    const ArrivalOptions& a = options_.arrivals;
    if (a.self_timed) {
      say("Self timing is set, using the timestamps from the trace file.");
      return;
    }
    if (a.ramp_up_strategy.empty()) {
      say("Traffic request rate: {}", config::python_number(a.request_rate));
    } else {
      say("Traffic ramp-up strategy: {}.", a.ramp_up_strategy);
      say("Will increase RPS from {} to {} RPS over the duration of the benchmark.",
          a.ramp_up_start_rps, a.ramp_up_end_rps);
    }
    say("Burstiness factor: {} ({})", config::python_number(a.burstiness),
        a.burstiness == 1.0 ? "Poisson process" : "Gamma distribution");
    say("Maximum request concurrency: {}",
        options_.max_concurrency ? std::to_string(*options_.max_concurrency) : "None");
    if (options_.probe_rate > 0) {
      say("Probe request rate: {} req/s", config::python_number(options_.probe_rate));
    }
  }

  BatchResult measure(LoadDriver& driver, const Arrivals& arrivals) {
    ProgressBar bar(host_.err, requests_.size(), options_.has_progress_bar);
    Batch batch = batch_of(requests_);
    batch.times_s = arrivals.times_s;
    batch.probe_rate = options_.probe_rate;
    batch.on_finished = [&](size_t done) { bar.update(done); };
    int64_t last_rps = options_.arrivals.ramp_up_start_rps;
    if (!options_.arrivals.ramp_up_strategy.empty()) {
      report_.rps_changes.push_back({last_rps, iso_time()});
      batch.on_turn = [&](size_t index) {
        const auto rps = int64_t(arrivals.rates[index]);
        while (last_rps < rps) report_.rps_changes.push_back({++last_rps, iso_time()});
      };
    }
    BatchResult result = driver.run(batch);
    bar.close();
    return result;
  }

  void report_run(const BatchResult& result) {
    report_.date = local_time("%Y%m%d-%H%M%S");
    report_.backend = options_.backend->name;
    report_.label = options_.label;
    report_.model_id = model_id_;
    if (model_ != nullptr) report_.tokenizer_id = tokenizer_path_;
    report_.num_prompts = options_.dataset.num_prompts;
    report_.metadata = options_.metadata;
    report_.request_rate = options_.arrivals.request_rate;
    report_.burstiness = options_.arrivals.burstiness;
    report_.max_concurrency = options_.max_concurrency;
    report_.ramp_up_strategy = options_.arrivals.ramp_up_strategy;
    report_.ramp_up_start_rps = options_.arrivals.ramp_up_start_rps;
    report_.ramp_up_end_rps = options_.arrivals.ramp_up_end_rps;
    report_.has_goodput = options_.goodput.is_set();
    report_.selected_metrics = options_.selected_metrics;
    report_.outcomes = result.outcomes;
    MetricOptions metrics;
    metrics.is_pooling = options_.backend->is_pooling;
    metrics.goodput = options_.goodput;
    metrics.percentiles = options_.percentiles;
    metrics.has_concurrency_limit = options_.max_concurrency.has_value();
    metrics.has_finite_rate = !std::isinf(options_.arrivals.request_rate);
    if (model_ != nullptr) {
      metrics.count_tokens = [this](std::string_view text) {
        return int64_t(model_->encode(text, false).size());
      };
    }
    report_.metrics = compute_metrics(report_.outcomes, result.duration_s, metrics);
    report_.probes = describe_probes(result.probes);
  }

  static std::optional<ProbeStats> describe_probes(const std::vector<Outcome>& probes) {
    std::vector<double> latencies_ms;
    for (const Outcome& probe : probes) {
      if (probe.success) latencies_ms.push_back(probe.latency_s * 1000);
    }
    if (latencies_ms.empty()) return std::nullopt;
    std::sort(latencies_ms.begin(), latencies_ms.end());
    ProbeStats stats;
    stats.completed = int64_t(latencies_ms.size());
    stats.failed = int64_t(probes.size()) - stats.completed;
    stats.median_e2el_ms = percentile_of_sorted(latencies_ms, 50);
    stats.p99_e2el_ms = percentile_of_sorted(latencies_ms, 99);
    stats.max_e2el_ms = latencies_ms.back();
    return stats;
  }

  void report_client(const BatchResult& result) {
    if (report_.metrics.completed == 0) {
      fmt::print(host_.err,
                 "WARNING: All requests failed. This is likely due to a misconfiguration on the "
                 "benchmark arguments.\n");
    }
    const double share = result.cpu_s / result.duration_s;
    say("Client CPU: {:.1f} % of one core ({:.3f} s)", share * 100, result.cpu_s);
    fmt::print(host_.err, "{}", saturation_warning(share));
  }

  void report_spec_decode(const std::optional<std::string>& before,
                          const std::optional<std::string>& after) {
    if (!before || !after) return;
    const auto start = parse_spec_decode(*before);
    const auto end = parse_spec_decode(*after);
    if (start && end) report_.spec_decode = spec_decode_gain(*start, *end);
  }

  std::filesystem::path result_path() const {
    const std::string name =
        options_.result_filename.empty() ? result_file_name(report_) : options_.result_filename;
    return std::filesystem::path(options_.result_dir) / name;
  }

  /// Writes or appends one JSON object; appended ones stand on lines of their own.
  Status write_json(const std::filesystem::path& path, const nlohmann::ordered_json& value) {
    std::error_code error;
    const bool has_text = options_.appends && std::filesystem::exists(path, error) &&
                          std::filesystem::file_size(path, error) > 0;
    std::ofstream file(path, options_.appends ? std::ios::app : std::ios::trunc);
    if (has_text) file << '\n';
    file << value.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
    file.flush();
    if (!file) return Error{Code::kUnavailable, fmt::format("cannot write {}", path.string())};
    return {};
  }

  Status make_result_folder() const {
    const bool writes = options_.saves || options_.plots_timeline || options_.plots_dataset_stats;
    if (!writes || options_.result_dir.empty()) return {};
    std::error_code error;
    std::filesystem::create_directories(options_.result_dir, error);
    return {};  // if it is not there, writing says so
  }

  Status write_beside(const char* suffix, const std::string& page) {
    std::filesystem::path path = result_path();
    std::ofstream file(path.replace_extension(suffix));
    file << page;
    file.flush();
    if (!file) return Error{Code::kUnavailable, fmt::format("cannot write {}", path.string())};
    return {};
  }

  Status save_plots() {
    if (options_.plots_timeline) {
      OCTAVO_TRY(write_beside(".timeline.html",
                              timeline_page(report_.outcomes, options_.timeline_itl_ms)));
      say("Timeline plot saved to: {}", result_path().replace_extension(".timeline.html").string());
    }
    if (!options_.plots_dataset_stats) return {};
    std::vector<int64_t> prompt_lens;
    for (const Outcome& outcome : report_.outcomes) prompt_lens.push_back(outcome.prompt_len);
    std::vector<int64_t> output_lens = report_.metrics.output_lens;
    output_lens.resize(prompt_lens.size());  // pooling has none
    OCTAVO_TRY(write_beside(".dataset_stats.html", dataset_stats_page(prompt_lens, output_lens)));
    say("Dataset statistics plot saved to: {}",
        result_path().replace_extension(".dataset_stats.html").string());
    return {};
  }

  Status save() {
    const nlohmann::ordered_json result = result_json(report_, options_.is_detailed);
    OCTAVO_TRY(write_json(result_path(), result));
    if (options_.pytorch_arguments.empty()) return {};
    const auto arguments = nlohmann::ordered_json::parse(options_.pytorch_arguments);
    return write_beside(".pytorch.json",
                        pytorch_records(result, arguments)
                            .dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
  }

  /// The run's conditions, but for what was read before and after it.
  nlohmann::ordered_json make_record(const BatchResult& result) {
    using Json = nlohmann::ordered_json;
    const auto facts = collect_server_facts(server_, kMaxWaitForHashS, [this] {
      fmt::print(host_.err, "Waiting for the server's hash of its weights...\n");
    });
    Json results = result_json(report_, false);
    Json load = Json::object();
    for (const char* key :
         {"backend", "num_prompts", "request_rate", "burstiness", "max_concurrency",
          "ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps"}) {
      if (results.contains(key)) load[key] = results[key];
    }
    load["endpoint"] = options_.endpoint;
    load["num_warmups"] = options_.num_warmups;
    load["extra_body"] =
        options_.extra_body.empty() ? Json::object() : Json::parse(options_.extra_body);
    load["ignore_eos"] = options_.ignore_eos;
    for (const char* key : {"latencies", "queue_times"}) results.erase(key);
    const SessionMark& mark = options_.session;
    Json session = nullptr;
    if (!mark.id.empty()) {
      session = {
          {"id", mark.id}, {"round", mark.round}, {"side", mark.side}, {"place", mark.place}};
    }
    return {{"format", "octavo-run-record/1"},
            {"date", report_.date},
            {"result_file", result_path().filename().string()},
            {"session", std::move(session)},
            {"client",
             {{"version", config::version()},
              {"git_revision", config::git_revision()},
              {"arguments", arguments_},
              {"cpu_share", result.cpu_s / result.duration_s}}},
            {"server", facts.ok() ? *facts : Json()},
            {"dataset",
             {{"name", options_.dataset.name},
              {"path", options_.dataset.path.empty() ? Json() : Json(options_.dataset.path)},
              {"seed", options_.seed},
              {"prompts_sha256", hash_prompts(requests_)}}},
            {"load", std::move(load)},
            {"errors", count_errors(report_.outcomes)},
            {"results", std::move(results)}};
  }

  /// Beside the result: NAME.record.json, and the page of the last run as NAME.record.md.
  Status save_record(const nlohmann::ordered_json& record) {
    std::filesystem::path path = result_path();
    OCTAVO_TRY(write_json(path.replace_extension(".record.json"), record));
    return write_beside(".record.md", run_record_page(record));
  }

  const ServeOptions options_;
  const std::string arguments_;  // as they are printed, secrets hidden
  const Host& host_;
  GlobalRandom random_;
  Server server_;
  std::string model_id_;    // as results name it
  std::string model_name_;  // as requests name it
  std::string tokenizer_path_;
  std::unique_ptr<TextModel> model_;  // nullptr: no tokenizer
  std::vector<SampleRequest> requests_;
  ServeReport report_;
};

int usage_error(const Host& host, const Error& error) {
  fmt::print(host.err, "usage: octavo bench serve [options]\noctavo bench serve: error: {}\n",
             error.message);
  return kUsageError;
}

}  // namespace

Result<ServeReport> make_serve_run(ServeOptions options, std::string arguments, const Host& host) {
  ServeRun run(std::move(options), std::move(arguments), host);
  OCTAVO_TRY(run.run());
  return run.take_report();
}

int run_serve(std::span<const std::string> args, const Host& host) {
  auto line = config::CommandLine::read(serve_flags(), args);
  if (!line.ok()) return usage_error(host, line.error());
  if (line->wants_help()) {
    fmt::print(host.out,
               "usage: octavo bench serve [options]\n\nSends requests to a running server and "
               "measures the answers.\n\noptions:\n{}",
               config::describe_options(serve_flags()));
    return 0;
  }
  const std::string arguments = line->as_namespace();
  std::random_device device;
  auto options = read_serve_options(std::move(*line), host.environment,
                                    fmt::format("bench-{:08x}-", device()));
  if (!options.ok()) return usage_error(host, options.error());
  fmt::print(host.out, "{}\n", arguments);
  const auto report = make_serve_run(std::move(*options), arguments, host);
  if (report.ok()) return 0;
  fmt::print(host.err, "octavo bench serve: error: {}\n", report.error().message);
  return report.error().code == Code::kInvalidArgument ? kUsageError : kFailed;
}

}  // namespace octavo::bench
