#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/outcome.h"
#include "bench/serve_metrics.h"

namespace octavo::bench {

/// Requests of one token sent beside the load.
struct ProbeStats {
  int64_t completed = 0;
  int64_t failed = 0;
  double median_e2el_ms = 0;
  double p99_e2el_ms = 0;
  double max_e2el_ms = 0;
};

/// What the server's speculation counters gained during the run.
struct SpecDecodeStats {
  double acceptance_rate = 0;    // percent of draft tokens
  double acceptance_length = 0;  // tokens a draft, with the one that is always there
  int64_t num_drafts = 0;
  int64_t draft_tokens = 0;
  int64_t accepted_tokens = 0;
  std::vector<double> per_position_rates;  // shares of drafts
};

struct RpsChange {
  int64_t rps = 0;
  std::string timestamp;  // local time, ISO 8601
};

/// Everything that is printed and saved of one run.
struct ServeReport {
  // Conditions.
  std::string date;  // YYYYmmdd-HHMMSS
  std::string backend;
  std::optional<std::string> label;
  std::string model_id;
  std::optional<std::string> tokenizer_id;  // unset: no tokenizer
  int64_t num_prompts = 0;
  std::vector<std::pair<std::string, std::string>> metadata;
  double request_rate = 0;  // infinite: all at once
  double burstiness = 1;
  std::optional<int64_t> max_concurrency;
  std::string ramp_up_strategy;  // empty: none
  int64_t ramp_up_start_rps = 0;
  int64_t ramp_up_end_rps = 0;
  bool has_goodput = false;
  std::vector<std::string> selected_metrics;  // "ttft", "tpot", ...
  // Results.
  ServeMetrics metrics;
  std::vector<Outcome> outcomes;
  std::optional<ProbeStats> probes;
  std::optional<SpecDecodeStats> spec_decode;
  std::vector<RpsChange> rps_changes;
};

/// The block ` Serving Benchmark Result `, byte for byte as vLLM's `bench serve` prints it.
std::string format_block(const ServeReport& report);

/// Up to ten lines `Error i: ...`, with their heading; empty without failures.
std::string format_failures(const std::vector<Outcome>& outcomes);

/// A line for a client that was busy for this share of one core; empty while that is harmless.
std::string saturation_warning(double cpu_share);

/// The saved object. Lists per request only if `is_detailed`, but for latencies and queue_times.
nlohmann::ordered_json result_json(const ServeReport& report, bool is_detailed);

/// "label-RATEqps[-concurrencyN]-MODEL-DATE.json" and its ramp-up form.
std::string result_file_name(const ServeReport& report);

}  // namespace octavo::bench
