#include "bench/serve_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "bench/pytorch_records.h"
#include "bench/serve_flags.h"
#include "client/http_client.h"

namespace octavo::bench {
namespace {

using config::CommandLine;
using Json = nlohmann::ordered_json;
using Pairs = std::vector<std::pair<std::string, std::string>>;

constexpr int64_t kMaxRequests = 10'000'000;

Error invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t") - begin + 1));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    out.push_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return out;
}

std::optional<double> to_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || std::isnan(value)) {
    return std::nullopt;
  }
  return value;
}

Result<Pairs> read_pairs(const CommandLine& line, std::string_view name) {
  Pairs out;
  for (const std::string& word : line.list(name)) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      return invalid(fmt::format("Invalid {} format. Please use KEY=VALUE format.", name));
    }
    out.emplace_back(trimmed(word.substr(0, equals)), trimmed(word.substr(equals + 1)));
  }
  return out;
}

Status read_backend(const CommandLine& line, ServeOptions& options) {
  const std::string& name = line.text("backend");
  options.backend = find_backend(name);
  if (options.backend == nullptr) {
    return invalid(name == "openai-audio"
                       ? "argument --backend: not 'openai-audio': its requests carry audio; octavo "
                         "bench sends text only"
                       : fmt::format("argument --backend: invalid choice: '{}' (choose from {})",
                                     name, backend_choices()));
  }
  options.endpoint = line.text("endpoint");
  if (!options.endpoint.starts_with('/')) return invalid("--endpoint must begin with /");
  if (!options.endpoint.ends_with(options.backend->endpoint_suffix)) {
    return invalid(fmt::format("--backend {} needs a URL that ends with '{}': give --endpoint",
                               name, options.backend->endpoint_suffix));
  }
  return {};
}

Status read_target(const CommandLine& line, const config::EnvironmentLookup& environment,
                   ServeOptions& options) {
  OCTAVO_TRY(read_backend(line, options));
  if (line.has("base-url")) {
    OCTAVO_TRY(options.base, client::parse_url(line.text("base-url")));
  } else {
    OCTAVO_TRY(options.base.origin, client::make_origin(line.text("host"), line.integer("port")));
  }
  options.headers = {{"Content-Type", "application/json"}};
  const auto key = environment("OPENAI_API_KEY");
  if (key && !key->empty()) options.headers.emplace_back("Authorization", "Bearer " + *key);
  OCTAVO_TRY(const Pairs own, read_pairs(line, "header"));
  for (const auto& [name, value] : own) {
    if (!client::is_header_name(name) || !client::is_header_value(value)) {
      return invalid("--header: a name or value cannot stand in a header");
    }
    const auto same = std::ranges::find(options.headers, name, &Pairs::value_type::first);
    if (same == options.headers.end()) {
      options.headers.emplace_back(name, value);
    } else {
      same->second = value;
    }
  }
  options.verify_tls = !line.flag("insecure");
  options.model = line.text("model");
  options.served_model_name = line.text("served-model-name");
  options.tokenizer = line.text("tokenizer");
  options.skip_tokenizer_init = line.flag("skip-tokenizer-init");
  return {};
}

Status read_sampling(const CommandLine& line, ServeOptions& options) {
  Json body = Json::object();
  for (const char* name : {"top-p", "top-k", "min-p", "temperature", "frequency-penalty",
                           "presence-penalty", "repetition-penalty"}) {
    if (!line.has(name)) continue;
    std::string key(name);
    std::replace(key.begin(), key.end(), '-', '_');
    if (key == "top_k") {
      body[key] = line.integer(name);
      continue;
    }
    if (!std::isfinite(line.real(name))) return invalid(fmt::format("--{} must be finite", name));
    body[key] = line.real(name);
  }
  if (!body.empty() && options.backend->is_pooling) {
    return invalid("Sampling parameters are only supported by openai-compatible backends.");
  }
  if (line.has("extra-body")) body.update(Json::parse(line.text("extra-body")));
  options.has_temperature = body.contains("temperature");
  if (!body.empty()) options.extra_body = body.dump();
  if (line.has("logprobs")) options.logprobs = line.integer("logprobs");
  const std::string& dataset = line.text("dataset-name");
  options.ignore_eos = line.flag("ignore-eos") || dataset == "timed_trace" ||
                       (dataset == "random" && !options.backend->is_pooling);
  options.lora_modules = line.list("lora-modules");
  options.lora_round_robin = line.text("lora-assignment") == "round-robin";
  return {};
}

Status read_ramp_up(const CommandLine& line, ServeOptions& options) {
  ArrivalOptions& arrivals = options.arrivals;
  arrivals.ramp_up_strategy = line.text("ramp-up-strategy");
  if (arrivals.ramp_up_strategy.empty()) return {};
  if (!std::isinf(arrivals.request_rate)) {
    return invalid(
        "When using ramp-up, do not specify --request-rate. The request rate will be controlled by "
        "ramp-up parameters.");
  }
  if (!line.has("ramp-up-start-rps") || !line.has("ramp-up-end-rps")) {
    return invalid(
        "When using --ramp-up-strategy, both --ramp-up-start-rps and --ramp-up-end-rps must be "
        "specified");
  }
  arrivals.ramp_up_start_rps = line.integer("ramp-up-start-rps");
  arrivals.ramp_up_end_rps = line.integer("ramp-up-end-rps");
  if (arrivals.ramp_up_start_rps < 0 || arrivals.ramp_up_end_rps < 0) {
    return invalid("Ramp-up start and end RPS must be non-negative");
  }
  if (arrivals.ramp_up_start_rps > arrivals.ramp_up_end_rps) {
    return invalid("Ramp-up start RPS must be less than end RPS");
  }
  // Either ramp from 0 asks the first request to wait for ever.
  if (arrivals.ramp_up_start_rps == 0) {
    return invalid(
        fmt::format("For {} ramp-up, the start RPS cannot be 0.", arrivals.ramp_up_strategy));
  }
  return {};
}

Status read_load(const CommandLine& line, ServeOptions& options) {
  ArrivalOptions& arrivals = options.arrivals;
  arrivals.request_rate = line.real("request-rate");
  arrivals.burstiness = line.real("burstiness");
  if (!(arrivals.request_rate > 0)) return invalid("--request-rate must be greater than 0");
  if (!(arrivals.burstiness > 0)) return invalid("--burstiness must be greater than 0");
  OCTAVO_TRY(read_ramp_up(line, options));
  const bool is_trace = line.text("dataset-name") == "timed_trace";
  if (line.is_given("self-timed") && !is_trace) {
    return invalid(
        "--self-timed/--no-self-timed is only supported with --dataset-name=timed_trace");
  }
  if (is_trace && options.backend->wire != Wire::kCompletions) {
    return invalid("timed_trace sends tokenised prompts and needs --backend openai (completions)");
  }
  arrivals.self_timed = is_trace && (!line.is_given("self-timed") || line.flag("self-timed"));
  if (line.has("max-concurrency")) {
    options.max_concurrency = line.integer("max-concurrency");
    if (*options.max_concurrency <= 0) return invalid("--max-concurrency must be greater than 0");
  }
  options.num_warmups = line.integer("num-warmups");
  options.ready_check_timeout_s = line.integer("ready-check-timeout-sec");
  options.probe_rate = line.real("probe-request-rate");
  if (options.num_warmups < 0 || options.num_warmups > kMaxRequests) {
    return invalid("--num-warmups is out of range");
  }
  if (!(options.probe_rate >= 0) || options.probe_rate > 1e6) {
    return invalid("--probe-request-rate is out of range");
  }
  const int64_t seed = line.integer("seed");
  if (seed < 0 || seed > int64_t(std::numeric_limits<uint32_t>::max())) {
    return invalid("Seed must be between 0 and 2**32 - 1");
  }
  options.seed = uint32_t(seed);
  return {};
}

Status read_goodput(const CommandLine& line, Goodput& goodput) {
  for (const std::string& word : line.list("goodput")) {
    const size_t colon = word.find(':');
    const auto value =
        colon == std::string::npos ? std::nullopt : to_number(word.substr(colon + 1));
    if (!value) {
      return invalid(
          "Invalid format found for service level objectives. Specify service level objectives for "
          "goodput as \"KEY:VALUE\" pairs, where the key is a metric name, and the value is a "
          "number in milliseconds.");
    }
    const std::string name = word.substr(0, colon);
    std::optional<double>* limit = name == "ttft"   ? &goodput.ttft_ms
                                   : name == "tpot" ? &goodput.tpot_ms
                                   : name == "e2el" ? &goodput.e2el_ms
                                                    : nullptr;
    if (limit == nullptr) {
      return invalid(fmt::format(
          "Invalid metric name found, {}: {}. The service level objective name should be one of "
          "['ttft', 'tpot', 'e2el'].",
          name, config::python_number(*value)));
    }
    if (*value < 0) {
      return invalid(
          fmt::format("Invalid value found, {}: {}. The service level objective value "
                      "should be non-negative.",
                      name, config::python_number(*value)));
    }
    *limit = *value;
  }
  return {};
}

Status read_plots(const CommandLine& line, ServeOptions& options) {
  options.profiles = line.flag("profile");
  options.plots_timeline = line.flag("plot-timeline");
  options.plots_dataset_stats = line.flag("plot-dataset-stats");
  const std::vector<std::string> words = split(line.text("timeline-itl-thresholds"), ',');
  const auto first = to_number(words[0]);
  const auto second = to_number(words.back());
  if (words.size() != 2 || !first || !second || !(*first >= 0) || !(*second <= 1e9)) {
    return invalid(
        "Invalid --timeline-itl-thresholds format: two numbers of milliseconds, as "
        "25,50");
  }
  options.timeline_itl_ms = {*first, *second};
  return {};
}

Status read_reporting(const CommandLine& line, ServeOptions& options) {
  constexpr auto kMetrics = std::to_array<std::string_view>(
      {"ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"});
  const char* usual = options.backend->is_pooling ? "e2el" : "ttft,tpot,itl";
  options.selected_metrics = split(
      line.has("percentile-metrics") ? line.text("percentile-metrics") : std::string(usual), ',');
  for (const std::string& name : options.selected_metrics) {
    if (std::ranges::find(kMetrics, name) == kMetrics.end()) {
      return invalid(fmt::format("--percentile-metrics: no metric '{}'", name));
    }
  }
  for (const std::string& word : split(line.text("metric-percentiles"), ',')) {
    const auto p = to_number(word);
    if (!p || !(*p >= 0 && *p <= 100)) {
      return invalid(fmt::format("--metric-percentiles: '{}' is not from 0 to 100", word));
    }
    options.percentiles.push_back(*p);
  }
  OCTAVO_TRY(read_goodput(line, options.goodput));
  OCTAVO_TRY(options.metadata, read_pairs(line, "metadata"));
  options.appends = line.flag("append-result");
  options.saves = line.flag("save-result") || options.appends;
  options.is_detailed = line.flag("save-detailed");
  options.result_dir = line.text("result-dir");
  options.result_filename = line.text("result-filename");
  if (line.has("label")) options.label = line.text("label");
  options.has_progress_bar = !line.flag("disable-tqdm");
  return read_plots(line, options);
}

Status read_range_ratio(const std::string& text, DatasetOptions& dataset) {
  if (const auto ratio = to_number(text)) {
    dataset.random_input_range_ratio = dataset.random_output_range_ratio = *ratio;
    return {};
  }
  const Json both = Json::parse(text, nullptr, false);
  const auto has_number = [&](const char* key) {
    return both.is_object() && both.contains(key) && both[key].is_number();
  };
  if (!has_number("input") || !has_number("output")) {
    return invalid(
        "--random-range-ratio must be a number or {\"input\": number, \"output\": number}");
  }
  dataset.random_input_range_ratio = both["input"].get<double>();
  dataset.random_output_range_ratio = both["output"].get<double>();
  return {};
}

Status read_dataset(const CommandLine& line, const std::string& random_prefix,
                    ServeOptions& options) {
  DatasetOptions& d = options.dataset;
  d.name = line.text("dataset-name");
  OCTAVO_TRY(check_dataset_name(d.name, dataset_choices()));
  d.path = line.text("dataset-path");
  d.num_prompts = line.integer("num-prompts");
  if (d.num_prompts > kMaxRequests) return invalid("--num-prompts is out of range");
  d.seed = options.seed;
  d.request_id_prefix =
      line.has("request-id-prefix") ? line.text("request-id-prefix") : random_prefix;
  if (!client::is_header_value(d.request_id_prefix)) {
    return invalid("--request-id-prefix cannot stand in a header");
  }
  d.no_oversample = line.flag("no-oversample");
  d.disable_shuffle = line.flag("disable-shuffle");
  d.skip_chat_template = line.flag("skip-chat-template");
  d.chat_template_kwargs = line.text("chat-template-kwargs");
  d.random_input_len = line.integer("random-input-len");
  d.random_output_len = line.integer("random-output-len");
  d.random_prefix_len = line.integer("random-prefix-len");
  OCTAVO_TRY(read_range_ratio(line.text("random-range-ratio"), d));
  d.random_batch_size = line.integer("random-batch-size");
  if (d.random_batch_size > 1 && options.backend->wire == Wire::kEmbeddingsChat) {
    return invalid(fmt::format("--random-batch-size above 1: --backend {} sends one conversation",
                               options.backend->name));
  }
  if (d.random_batch_size > 1 && !options.backend->is_pooling) {
    return invalid("--random-batch-size above 1 needs a pooling backend");
  }
  if (options.backend->wire == Wire::kRerank && d.name != "random-rerank") {
    return invalid("--backend vllm-rerank needs --dataset-name random-rerank");
  }
  if (d.name == "random-rerank" && !options.backend->is_pooling) {
    return invalid("--dataset-name random-rerank needs a pooling backend");
  }
  d.is_reranker = !line.flag("no-reranker");
  if (line.has("sharegpt-output-len")) d.sharegpt_output_len = line.integer("sharegpt-output-len");
  d.custom_output_len = line.integer("custom-output-len");
  d.spec_bench_output_len = line.integer("spec-bench-output-len");
  d.spec_bench_category = line.text("spec-bench-category");
  d.speed_bench_subset = line.text("speed-bench-dataset-subset");
  d.speed_bench_output_len = line.integer("speed-bench-output-len");
  d.speed_bench_category = line.text("speed-bench-category");
  d.hf_name = line.text("hf-name");
  d.hf_subset = line.text("hf-subset");
  d.hf_split = line.text("hf-split");
  if (line.has("hf-output-len")) d.hf_output_len = line.integer("hf-output-len");
  d.hf_streams = !line.flag("no-stream");
  d.prefix_repetition_prefix_len = line.integer("prefix-repetition-prefix-len");
  d.prefix_repetition_suffix_len = line.integer("prefix-repetition-suffix-len");
  d.prefix_repetition_num_prefixes = line.integer("prefix-repetition-num-prefixes");
  d.prefix_repetition_output_len = line.integer("prefix-repetition-output-len");
  d.trace_chunk_size = line.integer("timed-trace-chunk-hash-size");
  d.trace_sec_multiplier = line.real("timed-trace-sec-multiplier");
  d.trace_label_timestamp = line.text("timed-trace-label-timestamp");
  d.trace_label_input_length = line.text("timed-trace-label-input-length");
  d.trace_label_output_length = line.text("timed-trace-label-output-length");
  d.trace_label_hash_ids = line.text("timed-trace-label-hash-ids");
  return {};
}

/// `--input-len` and `--output-len` stand for the options of the data sets.
void spread_lengths(CommandLine& line) {
  if (line.has("input-len")) line.set("random-input-len", line.list("input-len"));
  if (!line.has("output-len")) return;
  for (const char* name :
       {"random-output-len", "sharegpt-output-len", "custom-output-len", "spec-bench-output-len",
        "prefix-repetition-output-len", "hf-output-len"}) {
    line.set(name, line.list("output-len"));
  }
}

}  // namespace

Result<ServeOptions> read_serve_options(config::CommandLine line,
                                        const config::EnvironmentLookup& environment,
                                        const std::string& random_prefix) {
  if (!line.positionals().empty()) {
    return invalid("unrecognized arguments: " + line.positionals()[0]);
  }
  spread_lengths(line);
  ServeOptions options;
  OCTAVO_TRY(read_target(line, environment, options));
  OCTAVO_TRY(read_sampling(line, options));
  OCTAVO_TRY(read_load(line, options));
  OCTAVO_TRY(read_reporting(line, options));
  OCTAVO_TRY(read_dataset(line, random_prefix, options));
  const auto wants_pytorch = environment("SAVE_TO_PYTORCH_BENCHMARK_FORMAT");
  if (wants_pytorch && !wants_pytorch->empty()) {
    options.pytorch_arguments = arguments_json(line, serve_flags()).dump();
  }
  return options;
}

}  // namespace octavo::bench
