#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "bench/datasets.h"
#include "bench/schedule.h"
#include "bench/serve_metrics.h"
#include "bench/wire.h"
#include "client/url.h"
#include "config/command_line.h"
#include "config/environment.h"

namespace octavo::bench {

/// Where a run stands in a session of `bench repeat`.
struct SessionMark {
  std::string id;  // empty: in none
  int64_t round = 0;
  std::string side;
  int64_t place = 0;  // within its round: 1 went first
};

/// A command line of `bench serve` that makes sense.
struct ServeOptions {
  const Backend* backend = nullptr;
  client::Url base;
  std::string endpoint;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string model;  // empty: ask the server
  std::string served_model_name;
  std::string tokenizer;  // empty: the model
  std::optional<int64_t> logprobs;
  std::string extra_body;  // sampling options and --extra-body as one JSON object, or empty
  std::vector<std::string> lora_modules;
  bool skip_tokenizer_init = false;
  bool verify_tls = true;
  bool lora_round_robin = false;
  bool ignore_eos = false;
  bool has_temperature = false;

  ArrivalOptions arrivals;
  std::optional<int64_t> max_concurrency;
  int64_t num_warmups = 0;
  int64_t ready_check_timeout_s = 0;
  double probe_rate = 0;
  uint32_t seed = 0;

  bool saves = false;
  bool is_detailed = false;
  bool appends = false;
  bool profiles = false;
  bool plots_timeline = false;
  bool plots_dataset_stats = false;
  bool has_progress_bar = true;
  std::vector<std::string> selected_metrics;
  std::vector<double> percentiles;
  Goodput goodput;
  std::string result_dir;
  std::string result_filename;
  std::optional<std::string> label;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::array<double, 2> timeline_itl_ms = {25, 50};
  std::string pytorch_arguments;  // arguments_json() if that form is asked for, else empty

  DatasetOptions dataset;
  SessionMark session;
};

/// Reads and checks. Errors are one line that names the option. `random_prefix` is the prefix of
/// request ids unless one is given.
Result<ServeOptions> read_serve_options(config::CommandLine line,
                                        const config::EnvironmentLookup& environment,
                                        const std::string& random_prefix);

}  // namespace octavo::bench
