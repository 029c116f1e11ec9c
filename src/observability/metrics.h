#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The metric table and its registry. Names, buckets and text form are exactly vLLM's.

namespace octavo::observability {

enum class Kind : uint8_t { kGauge, kCounter, kHistogram, kInfo };

/// One per row of kMetrics (metric_table.cc), same order.
enum class MetricId : uint8_t {
  kNumRequestsRunning,
  kNumRequestsWaiting,
  kNumRequestsWaitingByReason,  // label 0 capacity, 1 deferred
  kKvCacheUsagePerc,
  kGpuCacheUsagePerc,  // deprecated alias of the former
  kPromptTokens,
  kPromptTokensBySource,  // label 0 local_compute, 1 local_cache_hit, 2 external_kv_transfer
  kPromptTokensCached,
  kGenerationTokens,
  kNumPreemptions,
  kRequestSuccess,  // label = engine::FinishReason: stop, length, abort, error, repetition
  kPrefixCacheQueries,
  kPrefixCacheHits,
  kIterationTokens,
  kTimeToFirstToken,
  kInterTokenLatency,
  kE2eRequestLatency,
  kRequestQueueTime,
  kRequestPrefillTime,
  kRequestDecodeTime,
  kRequestInferenceTime,
  kRequestTimePerOutputToken,
  kRequestPromptTokens,
  kRequestGenerationTokens,
  kRequestPrefillKvComputedTokens,
  kRequestNumPreemptions,
  kRequestParamsMaxTokens,
  kRequestMaxNumGenerationTokens,
  kRequestParamsN,
  kEngineSleepState,  // label 0 awake (starts at 1), 1 weights_offloaded, 2 discard_all
  kExternalPrefixCacheQueries,
  kExternalPrefixCacheHits,
  kMmCacheQueries,
  kMmCacheHits,
  kEstimatedFlops,
  kEstimatedReadBytes,
  kEstimatedWriteBytes,
  kNumMetrics,
};

struct MetricDef {
  MetricId id;
  Kind kind;
  std::string_view name;  // as declared; counters are exposed with _total
  std::string_view help;
  std::span<const double> buckets = {};  // histograms; empty = request_tokens(max_model_len)
  std::string_view label = {};           // one extra label, or none
  std::span<const std::string_view> label_values = {};  // pre-created children
};
std::span<const MetricDef> metric_table();

/// The 1-2-5 series up to max_model_len.
std::vector<double> request_tokens_buckets(int64_t max_model_len);

/// Series of one engine. One writer (the output stage); `publish` makes all changes since the last
/// one visible together, `text` renders what was last published. Readers never block the writer for
/// longer than a copy.
class EngineMetrics {
 public:
  struct Options {
    std::string model_name;
    int engine_index = 0;
    int64_t max_model_len = 0;
    double now_wall_s = 0.0;  // for _created
    /// Labels of vllm:cache_config_info, alphabetical, without "engine".
    std::vector<std::pair<std::string, std::string>> cache_config_info;
  };
  explicit EngineMetrics(Options options);
  ~EngineMetrics();

  // Writer.
  void set(MetricId id, double value, int label_index = 0);
  void add(MetricId id, double value, int label_index = 0);
  void observe(MetricId id, double value);
  void publish();

  // Any thread.
  /// Appends the exposition text of the last published state.
  void append_text(std::string& out) const;
  /// Last published value of a gauge or counter, or a histogram's count.
  double value(MetricId id, int label_index = 0) const;
  double histogram_sum(MetricId id) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// http_* series (docs/reference/metrics.md). Any thread.
class HttpMetrics {
 public:
  explicit HttpMetrics(double now_wall_s);
  ~HttpMetrics();
  /// A finished response. `handler` is the route's template or "none"; excluded paths are ignored.
  void record(std::string_view handler, std::string_view method, int status, int64_t request_bytes,
              int64_t response_bytes, double duration_s);
  void append_text(std::string& out) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Appends process_* series read from /proc.
void append_process_text(std::string& out);

/// Whether `_created` series are written: PROMETHEUS_DISABLE_CREATED_SERIES, read at each call.
bool created_series_enabled();

/// A float as prometheus_client prints it: "3.0", "1.234567e+06", "1e-05", "+Inf".
std::string format_value(double value);

}  // namespace octavo::observability
