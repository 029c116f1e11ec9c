#include "frontend/request_accounting.h"

#include <algorithm>

namespace octavo::frontend {

using observability::MetricId;

RequestAccounting::RequestAccounting(observability::EngineMetrics& metrics, StatsSink* stats)
    : metrics_(metrics), stats_(stats) {}

void RequestAccounting::begin_step(double now_wall_s) {
  now_wall_s_ = now_wall_s;
  step_prompt_tokens_ = 0;
  step_new_tokens_ = 0;
  step_has_output_ = false;
}

void RequestAccounting::record_tokens(SampleTally& sample, const engine::SequenceOutput& output,
                                      double output_s, int32_t num_new_tokens) {
  step_has_output_ = true;
  sample.queued_s = output.queued_s;
  sample.first_scheduled_s = output.first_scheduled_s;
  sample.num_preemptions = output.num_preemptions;
  if (sample.first_token_s == 0.0) {
    sample.first_token_s = output_s;
    sample.num_prompt_tokens = output.num_prompt_tokens;
    sample.num_cached_tokens = std::min(output.num_cached_tokens, output.num_prompt_tokens);
    const int32_t computed = sample.num_prompt_tokens - sample.num_cached_tokens;
    step_prompt_tokens_ += computed;
    metrics_.add(MetricId::kPromptTokens, sample.num_prompt_tokens);
    metrics_.add(MetricId::kPromptTokensBySource, computed, 0);
    metrics_.add(MetricId::kPromptTokensBySource, sample.num_cached_tokens, 1);
    metrics_.add(MetricId::kPromptTokensCached, sample.num_cached_tokens);
    metrics_.observe(MetricId::kTimeToFirstToken,
                     std::max(0.0, now_wall_s_ - sample.arrival_wall_s));
  } else {
    metrics_.observe(MetricId::kInterTokenLatency, std::max(0.0, output_s - sample.last_token_s));
  }
  sample.last_token_s = output_s;
  sample.num_generated_tokens += num_new_tokens;
  step_new_tokens_ += num_new_tokens;
  metrics_.add(MetricId::kGenerationTokens, num_new_tokens);
}

void RequestAccounting::record_end(SampleTally& sample, engine::FinishReason reason,
                                   bool client_gone) {
  metrics_.add(MetricId::kRequestSuccess, 1, static_cast<int>(reason));
  RequestTally& request = *sample.request;
  if (!client_gone && sample.first_token_s != 0.0) {
    observe_end(sample);
    ++request.num_counted;
    request.max_generated = std::max<int64_t>(request.max_generated, sample.num_generated_tokens);
  }
  if (--request.num_open == 0 && request.num_counted > 0) {
    metrics_.observe(MetricId::kRequestMaxNumGenerationTokens,
                     static_cast<double>(request.max_generated));
    metrics_.observe(MetricId::kRequestParamsN, request.n);
  }
}

void RequestAccounting::observe_end(const SampleTally& sample) {
  const double queue_s = sample.first_scheduled_s - sample.queued_s;
  const double prefill_s = sample.first_token_s - sample.first_scheduled_s;
  const double decode_s = sample.last_token_s - sample.first_token_s;
  const int32_t generated = sample.num_generated_tokens;
  metrics_.observe(MetricId::kE2eRequestLatency,
                   std::max(0.0, now_wall_s_ - sample.arrival_wall_s));
  metrics_.observe(MetricId::kRequestQueueTime, std::max(0.0, queue_s));
  metrics_.observe(MetricId::kRequestPrefillTime, std::max(0.0, prefill_s));
  metrics_.observe(MetricId::kRequestDecodeTime, decode_s);
  metrics_.observe(MetricId::kRequestInferenceTime,
                   std::max(0.0, sample.last_token_s - sample.first_scheduled_s));
  metrics_.observe(MetricId::kRequestTimePerOutputToken,
                   generated > 1 ? decode_s / (generated - 1) : 0.0);
  metrics_.observe(MetricId::kRequestPromptTokens, sample.num_prompt_tokens);
  metrics_.observe(MetricId::kRequestGenerationTokens, generated);
  metrics_.observe(MetricId::kRequestPrefillKvComputedTokens,
                   sample.num_prompt_tokens - sample.num_cached_tokens);
  metrics_.observe(MetricId::kRequestNumPreemptions, sample.num_preemptions);
  if (sample.max_tokens > 0) metrics_.observe(MetricId::kRequestParamsMaxTokens, sample.max_tokens);
}

void RequestAccounting::end_step(const engine::SchedulerStats& stats) {
  if (step_has_output_) {
    metrics_.observe(MetricId::kIterationTokens,
                     static_cast<double>(step_prompt_tokens_ + step_new_tokens_));
  }
  metrics_.set(MetricId::kNumRequestsRunning, stats.num_running);
  metrics_.set(MetricId::kNumRequestsWaiting, stats.num_waiting + stats.num_skipped);
  metrics_.set(MetricId::kNumRequestsWaitingByReason, stats.num_waiting, 0);
  metrics_.set(MetricId::kNumRequestsWaitingByReason, stats.num_skipped, 1);
  metrics_.set(MetricId::kKvCacheUsagePerc, stats.kv_cache_usage);
  const auto advance = [&](MetricId id, int64_t& seen, int64_t now) {
    if (now > seen) metrics_.add(id, static_cast<double>(now - seen));
    seen = std::max(seen, now);
  };
  advance(MetricId::kNumPreemptions, num_preemptions_, stats.num_preemptions);
  advance(MetricId::kPrefixCacheQueries, prefix_cache_queries_, stats.prefix_cache_queries);
  advance(MetricId::kPrefixCacheHits, prefix_cache_hits_, stats.prefix_cache_hits);
  if (stats_ != nullptr) stats_->record_step(stats, step_prompt_tokens_, step_new_tokens_);
}

}  // namespace octavo::frontend
