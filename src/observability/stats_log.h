#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/log.h"

namespace octavo::observability {

/// A line to log and its level.
struct LogLine {
  log::Level level = log::Level::kInfo;
  std::string text;
};

/// The periodic line about an engine's throughput and queues, in vLLM's form. Not
/// thread-safe: it belongs to the output stage.
class StatsLog {
 public:
  struct Options {
    int engine_index = 0;
    std::string device = "CPU";  // first word of "KV cache usage"
    double interval_s = 5.0;
  };
  /// What one step adds, and where it left the gauges.
  struct Step {
    int64_t prompt_tokens_computed = 0;  // of prefills that finished, cached tokens excluded
    int64_t generation_tokens = 0;
    int64_t num_preemptions = 0;
    int64_t prefix_requests = 0;  // requests admitted with a look into the prefix cache
    int64_t prefix_query_tokens = 0;
    int64_t prefix_hit_tokens = 0;
    int64_t num_running = 0;
    int64_t num_waiting = 0;  // deferred ones included
    int64_t num_deferred = 0;
    double kv_cache_usage = 0;  // 0..1
  };

  /// `now_s` on the same clock as record's and tick's.
  StatsLog(Options options, double now_s);

  void record(const Step& step);
  /// The line, when an interval has passed since the last one.
  std::optional<LogLine> tick(double now_s);

 private:
  struct PrefixGroup {
    int64_t requests, queries, hits;
  };
  std::string line(double prompt_rate, double generation_rate) const;
  double hit_rate() const { return queries_ > 0 ? double(hits_) / double(queries_) : 0.0; }

  Options options_;
  double last_s_;
  Step interval_;  // sums of this interval, last gauges
  bool was_busy_ = false;
  std::deque<PrefixGroup> prefix_groups_;  // of the last 1000 requests, one per step
  int64_t requests_ = 0, queries_ = 0, hits_ = 0;
};

/// Says that requests are being preempted, at most once per interval: the operator's first signal
/// that the KV cache is too small.
class PreemptionWarning {
 public:
  explicit PreemptionWarning(double interval_s = 5.0) : interval_s_(interval_s) {}
  /// A preemption at `now_s`; the text of a WARNING if it is time for one.
  std::optional<std::string> record(double now_s);

 private:
  double interval_s_;
  std::optional<double> last_s_;
  int64_t cumulative_ = 0;
};

}  // namespace octavo::observability
