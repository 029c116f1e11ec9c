#include <array>

#include "observability/metrics.h"

// One row per MetricId, in its order (docs/reference/metrics.md is made of it). The words used for
// latencies: TTFT is from arrival to the first token; ITL is between two outputs of a request; TPOT
// is decode time over the tokens after the first; E2E is from arrival to the end.

namespace octavo::observability {
namespace {

constexpr double kTtft[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                            1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
constexpr double kItl[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                           0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
constexpr double kLatency[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                               30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
constexpr double kIteration[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
constexpr double kN[] = {1, 2, 5, 10, 20};
constexpr double kPreemptions[] = {1, 2, 3, 4, 5, 10, 20};

constexpr std::string_view kWaitingReasons[] = {"capacity", "deferred"};
constexpr std::string_view kPromptSources[] = {"local_compute", "local_cache_hit",
                                               "external_kv_transfer"};
constexpr std::string_view kFinishReasons[] = {"stop", "length", "abort", "error", "repetition"};
constexpr std::string_view kSleepStates[] = {"awake", "weights_offloaded", "discard_all"};

using Id = MetricId;
constexpr auto kGauge = Kind::kGauge;
constexpr auto kCounter = Kind::kCounter;
constexpr auto kHistogram = Kind::kHistogram;

constexpr auto kMetrics = std::to_array<MetricDef>({
    {Id::kNumRequestsRunning, kGauge, "vllm:num_requests_running",
     "Number of requests in model execution batches."},
    {Id::kNumRequestsWaiting, kGauge, "vllm:num_requests_waiting",
     "Number of requests waiting to be processed."},
    {Id::kNumRequestsWaitingByReason,
     kGauge,
     "vllm:num_requests_waiting_by_reason",
     "Number of requests waiting to be processed, by reason.",
     {},
     "reason",
     kWaitingReasons},
    {Id::kKvCacheUsagePerc, kGauge, "vllm:kv_cache_usage_perc",
     "KV-cache usage. 1 means 100 percent usage."},
    {Id::kGpuCacheUsagePerc, kGauge, "vllm:gpu_cache_usage_perc",
     "Deprecated: use vllm:kv_cache_usage_perc."},
    {Id::kPromptTokens, kCounter, "vllm:prompt_tokens", "Number of prefill tokens processed."},
    {Id::kPromptTokensBySource,
     kCounter,
     "vllm:prompt_tokens_by_source",
     "Number of prefill tokens by where their keys and values came from.",
     {},
     "source",
     kPromptSources},
    {Id::kPromptTokensCached, kCounter, "vllm:prompt_tokens_cached",
     "Number of prefill tokens that were not computed."},
    {Id::kGenerationTokens, kCounter, "vllm:generation_tokens",
     "Number of generation tokens processed."},
    {Id::kNumPreemptions, kCounter, "vllm:num_preemptions",
     "Cumulative number of preemptions of the engine."},
    {Id::kRequestSuccess,
     kCounter,
     "vllm:request_success",
     "Count of finished requests by reason.",
     {},
     "finished_reason",
     kFinishReasons},
    {Id::kPrefixCacheQueries, kCounter, "vllm:prefix_cache_queries",
     "Prefix cache queries, in tokens."},
    {Id::kPrefixCacheHits, kCounter, "vllm:prefix_cache_hits", "Prefix cache hits, in tokens."},
    {Id::kIterationTokens, kHistogram, "vllm:iteration_tokens_total",
     "Histogram of tokens per engine step.", kIteration},
    {Id::kTimeToFirstToken, kHistogram, "vllm:time_to_first_token_seconds",
     "Histogram of time to first token in seconds.", kTtft},
    {Id::kInterTokenLatency, kHistogram, "vllm:inter_token_latency_seconds",
     "Histogram of inter-token latency in seconds.", kItl},
    {Id::kE2eRequestLatency, kHistogram, "vllm:e2e_request_latency_seconds",
     "Histogram of end to end request latency in seconds.", kLatency},
    {Id::kRequestQueueTime, kHistogram, "vllm:request_queue_time_seconds",
     "Histogram of time spent waiting to be scheduled.", kLatency},
    {Id::kRequestPrefillTime, kHistogram, "vllm:request_prefill_time_seconds",
     "Histogram of time from being scheduled to the first token.", kLatency},
    {Id::kRequestDecodeTime, kHistogram, "vllm:request_decode_time_seconds",
     "Histogram of time from the first to the last token.", kLatency},
    {Id::kRequestInferenceTime, kHistogram, "vllm:request_inference_time_seconds",
     "Histogram of time from being scheduled to the last token.", kLatency},
    {Id::kRequestTimePerOutputToken, kHistogram, "vllm:request_time_per_output_token_seconds",
     "Histogram of decode time per token after the first, by request.", kItl},
    {Id::kRequestPromptTokens, kHistogram, "vllm:request_prompt_tokens",
     "Number of prefill tokens of a request."},
    {Id::kRequestGenerationTokens, kHistogram, "vllm:request_generation_tokens",
     "Number of generation tokens of a request."},
    {Id::kRequestPrefillKvComputedTokens, kHistogram, "vllm:request_prefill_kv_computed_tokens",
     "Prefill tokens of a request that were computed, not taken from a cache."},
    {Id::kRequestNumPreemptions, kHistogram, "vllm:request_num_preemptions",
     "How often a request was preempted.", kPreemptions},
    {Id::kRequestParamsMaxTokens, kHistogram, "vllm:request_params_max_tokens",
     "The max_tokens parameter of a request."},
    {Id::kRequestMaxNumGenerationTokens, kHistogram, "vllm:request_max_num_generation_tokens",
     "Largest number of generation tokens among the answers of a request."},
    {Id::kRequestParamsN, kHistogram, "vllm:request_params_n", "The n parameter of a request.", kN},
    {Id::kEngineSleepState,
     kGauge,
     "vllm:engine_sleep_state",
     "Engine sleep state: 1 for the state it is in.",
     {},
     "sleep_state",
     kSleepStates},
    {Id::kExternalPrefixCacheQueries, kCounter, "vllm:external_prefix_cache_queries",
     "Prefix cache queries to a KV connector, in tokens."},
    {Id::kExternalPrefixCacheHits, kCounter, "vllm:external_prefix_cache_hits",
     "Prefix cache hits of a KV connector, in tokens."},
    {Id::kMmCacheQueries, kCounter, "vllm:mm_cache_queries",
     "Multi-modal cache queries, in items."},
    {Id::kMmCacheHits, kCounter, "vllm:mm_cache_hits", "Multi-modal cache hits, in items."},
    {Id::kEstimatedFlops, kCounter, "vllm:estimated_flops_per_gpu",
     "Estimated number of floating point operations per device."},
    {Id::kEstimatedReadBytes, kCounter, "vllm:estimated_read_bytes_per_gpu",
     "Estimated number of bytes read from memory per device."},
    {Id::kEstimatedWriteBytes, kCounter, "vllm:estimated_write_bytes_per_gpu",
     "Estimated number of bytes written to memory per device."},
});

static_assert(kMetrics.size() == size_t(MetricId::kNumMetrics), "one row per MetricId");

}  // namespace

std::span<const MetricDef> metric_table() { return kMetrics; }

std::vector<double> request_tokens_buckets(int64_t max_model_len) {
  std::vector<double> buckets;
  for (int64_t unit = 1; unit <= max_model_len; unit *= 10) {
    for (const int64_t step : {1, 2, 5}) {
      if (step > max_model_len / unit) return buckets;
      buckets.push_back(static_cast<double>(step * unit));
    }
    if (unit > max_model_len / 10) break;
  }
  return buckets;
}

}  // namespace octavo::observability
