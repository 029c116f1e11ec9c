#pragma once

#include <cstdint>
#include <memory>

#include "engine/message.h"
#include "frontend/frontend.h"
#include "observability/metrics.h"

namespace octavo::frontend {

/// What all samples of one request share: series that count a request once, however large its n.
struct RequestTally {
  int32_t n = 1;
  int32_t num_open = 1;
  int32_t num_counted = 0;  // samples with latency samples
  int64_t max_generated = 0;
};

/// Time points and counts of one sample (docs/reference/metrics.md).
struct SampleTally {
  std::shared_ptr<RequestTally> request;
  double arrival_wall_s = 0.0;
  int32_t max_tokens = 0;
  double queued_s = 0.0;
  double first_scheduled_s = 0.0;
  double first_token_s = 0.0;  // T_core of the first output; 0 = none yet
  double last_token_s = 0.0;
  int32_t num_prompt_tokens = 0;
  int32_t num_cached_tokens = 0;
  int32_t num_generated_tokens = 0;
  int32_t num_preemptions = 0;
};

/// Turns steps into series. Only the output thread calls it; nothing is visible before `publish`.
///
/// Rules beyond vLLM's: every end is counted once in
/// request_success_total; a sample gives latency and size samples at its end only if it had a first
/// token and its client had not gone, so all histograms taken at the end have the same count.
class RequestAccounting {
 public:
  RequestAccounting(observability::EngineMetrics& metrics, StatsSink* stats);

  /// Begins a step's batch. `now_wall_s` is T_iter.
  void begin_step(double now_wall_s);
  /// One output with `num_new_tokens` > 0 that the client will see, at `output_s` (T_core).
  void record_tokens(SampleTally& sample, const engine::SequenceOutput& output, double output_s,
                     int32_t num_new_tokens);
  /// The end of a sample. `client_gone`: nobody reads it, so no latencies.
  void record_end(SampleTally& sample, engine::FinishReason reason, bool client_gone);
  /// Ends the batch: gauges, cumulative figures, iteration tokens.
  void end_step(const engine::SchedulerStats& stats);
  void publish() { metrics_.publish(); }

 private:
  void observe_end(const SampleTally& sample);

  observability::EngineMetrics& metrics_;
  StatsSink* const stats_;
  double now_wall_s_ = 0.0;
  int64_t step_prompt_tokens_ = 0;  // computed, of prefills that finished
  int64_t step_new_tokens_ = 0;
  bool step_has_output_ = false;
  int64_t num_preemptions_ = 0;  // as last seen
  int64_t prefix_cache_queries_ = 0;
  int64_t prefix_cache_hits_ = 0;
};

}  // namespace octavo::frontend
