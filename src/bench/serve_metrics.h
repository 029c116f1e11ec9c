#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/outcome.h"
#include "bench/statistics.h"

namespace octavo::bench {

/// Limits of a good request, in milliseconds; unset ones do not count.
struct Goodput {
  std::optional<double> ttft_ms;
  std::optional<double> tpot_ms;
  std::optional<double> e2el_ms;
  bool is_set() const { return ttft_ms || tpot_ms || e2el_ms; }
};

/// Aggregates of one run, as vLLM's `bench serve` defines them. Rates are per second of the whole
/// run; failed requests add nothing. Distributions are of seconds.
struct ServeMetrics {
  bool is_pooling = false;
  double duration_s = 0;
  int64_t completed = 0;
  int64_t failed = 0;
  int64_t total_input = 0;
  int64_t total_output = 0;
  int64_t total_input_sequences = 0;
  double request_throughput = 0;
  double request_goodput = 0;
  double output_throughput = 0;
  double total_token_throughput = 0;
  double input_sequence_throughput = 0;
  double max_output_tokens_per_s = 0;  // chunks in the fullest second
  int64_t max_concurrent_requests = 0;
  std::vector<int64_t> output_lens;  // per request, 0 for failed ones

  Distribution ttft;
  Distribution tpot;  // (latency - TTFT) / (tokens - 1); one-token answers are left out
  Distribution itl;   // all gaps of all requests
  Distribution e2el;
  std::optional<Distribution> client_queue_time;            // with a concurrency limit
  std::optional<Distribution> e2el_including_client_queue;  // and a finite rate
};

struct MetricOptions {
  bool is_pooling = false;
  Goodput goodput;
  std::vector<double> percentiles = {99};
  bool has_concurrency_limit = false;
  bool has_finite_rate = false;
  /// Tokens of a text, for servers that do not count; unset: such an answer counts as one token.
  std::function<int64_t(std::string_view text)> count_tokens;
};

/// `duration_s` > 0.
ServeMetrics compute_metrics(std::span<const Outcome> outcomes, double duration_s,
                             const MetricOptions& options);

}  // namespace octavo::bench
