#include "bench/serve_metrics.h"

#include <algorithm>
#include <cmath>

namespace octavo::bench {
namespace {

/// Per-request values of the successful requests, each list in the order of the requests.
struct Lists {
  std::vector<double> ttft;
  std::vector<double> tpot;      // without one-token answers
  std::vector<double> all_tpot;  // those as 0
  std::vector<double> itl;
  std::vector<double> e2el;
  std::vector<double> queue;
  std::vector<double> e2el_and_queue;
};

int64_t count_output(const Outcome& outcome, const MetricOptions& options) {
  if (outcome.output_tokens > 0) return outcome.output_tokens;
  return options.count_tokens ? options.count_tokens(outcome.generated_text) : 1;
}

void collect(const Outcome& outcome, int64_t output_len, Lists& lists) {
  double tpot = 0;
  if (output_len > 1) {
    tpot = (outcome.latency_s - outcome.ttft_s) / double(output_len - 1);
    lists.tpot.push_back(tpot);
  }
  lists.all_tpot.push_back(tpot);
  lists.itl.insert(lists.itl.end(), outcome.itl_s.begin(), outcome.itl_s.end());
  lists.ttft.push_back(outcome.ttft_s);
  lists.e2el.push_back(outcome.latency_s);
  lists.queue.push_back(outcome.client_queue_s);
  lists.e2el_and_queue.push_back(outcome.latency_s + outcome.client_queue_s);
}

int64_t count_good(const Lists& lists, const Goodput& goodput) {
  constexpr double kMsPerSecond = 1000;
  const auto meets = [](const std::optional<double>& limit_ms, double seconds) {
    return !limit_ms || seconds <= *limit_ms / kMsPerSecond;
  };
  int64_t good = 0;
  for (size_t i = 0; i < lists.e2el.size(); ++i) {
    good += meets(goodput.ttft_ms, lists.ttft[i]) && meets(goodput.tpot_ms, lists.all_tpot[i]) &&
            meets(goodput.e2el_ms, lists.e2el[i]);
  }
  return good;
}

/// Chunks and running requests of each whole second since the first start; the maxima.
void find_peaks(std::span<const Outcome> outcomes, ServeMetrics& metrics) {
  double first = 0;
  double last = 0;
  bool has_any = false;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.success) continue;
    first = has_any ? std::min(first, outcome.start_s) : outcome.start_s;
    last = has_any ? std::max(last, outcome.start_s + outcome.latency_s)
                   : outcome.start_s + outcome.latency_s;
    has_any = true;
  }
  if (!has_any) return;
  const size_t num_seconds = size_t(std::ceil(last - first)) + 1;
  std::vector<int64_t> chunks(num_seconds);
  std::vector<int64_t> running(num_seconds);
  const auto second_of = [&](double time_s) {
    return std::min(size_t(std::max(time_s - first, 0.0)), num_seconds - 1);
  };
  for (const Outcome& outcome : outcomes) {
    if (!outcome.success) continue;
    double time_s = outcome.start_s + outcome.ttft_s;
    ++chunks[second_of(time_s)];
    for (const double gap_s : outcome.itl_s) ++chunks[second_of(time_s += gap_s)];
    const size_t end = second_of(outcome.start_s + outcome.latency_s);
    for (size_t i = second_of(outcome.start_s); i <= end; ++i) ++running[i];
  }
  metrics.max_output_tokens_per_s = double(*std::ranges::max_element(chunks));
  metrics.max_concurrent_requests = *std::ranges::max_element(running);
}

void set_rates(ServeMetrics& metrics, int64_t num_good) {
  const double duration_s = metrics.duration_s;
  metrics.request_throughput = double(metrics.completed) / duration_s;
  metrics.request_goodput = double(num_good) / duration_s;
  metrics.output_throughput = double(metrics.total_output) / duration_s;
  metrics.total_token_throughput = double(metrics.total_input + metrics.total_output) / duration_s;
  metrics.input_sequence_throughput = double(metrics.total_input_sequences) / duration_s;
}

}  // namespace

ServeMetrics compute_metrics(std::span<const Outcome> outcomes, double duration_s,
                             const MetricOptions& options) {
  ServeMetrics metrics;
  metrics.is_pooling = options.is_pooling;
  metrics.duration_s = duration_s;
  Lists lists;
  for (const Outcome& outcome : outcomes) {
    int64_t output_len = 0;
    if (outcome.success) {
      output_len = options.is_pooling ? 0 : count_output(outcome, options);
      collect(outcome, output_len, lists);
      ++metrics.completed;
      metrics.total_input += outcome.prompt_len;
      metrics.total_output += output_len;
      metrics.total_input_sequences += outcome.num_input_sequences;
    } else {
      ++metrics.failed;
    }
    metrics.output_lens.push_back(output_len);
  }
  set_rates(metrics, count_good(lists, options.goodput));
  if (!options.is_pooling) find_peaks(outcomes, metrics);
  metrics.ttft = describe(std::move(lists.ttft), options.percentiles);
  metrics.tpot = describe(std::move(lists.tpot), options.percentiles);
  metrics.itl = describe(std::move(lists.itl), options.percentiles);
  metrics.e2el = describe(std::move(lists.e2el), options.percentiles);
  if (options.has_concurrency_limit) {
    metrics.client_queue_time = describe(std::move(lists.queue), options.percentiles);
    if (options.has_finite_rate) {
      metrics.e2el_including_client_queue =
          describe(std::move(lists.e2el_and_queue), options.percentiles);
    }
  }
  return metrics;
}

}  // namespace octavo::bench
