#include "observability/stats_log.h"

#include <fmt/format.h>

#include <algorithm>

namespace octavo::observability {
namespace {
constexpr int64_t kHitRateRequests = 1000;  // the hit rate is over the last so many requests
}  // namespace

StatsLog::StatsLog(Options options, double now_s) : options_(std::move(options)), last_s_(now_s) {}

void StatsLog::record(const Step& step) {
  interval_.prompt_tokens_computed += step.prompt_tokens_computed;
  interval_.generation_tokens += step.generation_tokens;
  interval_.num_preemptions += step.num_preemptions;
  interval_.num_running = step.num_running;
  interval_.num_waiting = step.num_waiting;
  interval_.num_deferred = step.num_deferred;
  interval_.kv_cache_usage = step.kv_cache_usage;
  if (step.prefix_requests <= 0) return;
  prefix_groups_.push_back(
      {step.prefix_requests, step.prefix_query_tokens, step.prefix_hit_tokens});
  requests_ += step.prefix_requests;
  queries_ += step.prefix_query_tokens;
  hits_ += step.prefix_hit_tokens;
  // Whole steps are dropped, oldest first; the newest stays even if it alone is larger.
  while (requests_ > kHitRateRequests && prefix_groups_.size() > 1) {
    const PrefixGroup& oldest = prefix_groups_.front();
    requests_ -= oldest.requests;
    queries_ -= oldest.queries;
    hits_ -= oldest.hits;
    prefix_groups_.pop_front();
  }
}

std::string StatsLog::line(double prompt_rate, double generation_rate) const {
  std::string text = fmt::format(
      "Engine {:03}: Avg prompt throughput: {:.1f} tokens/s, Avg generation throughput: {:.1f} "
      "tokens/s, Running: {} reqs, Waiting: {} reqs",
      options_.engine_index, prompt_rate, generation_rate, interval_.num_running,
      interval_.num_waiting);
  if (interval_.num_deferred > 0) {
    text += fmt::format(", Deferred: {} reqs", interval_.num_deferred);
  }
  if (interval_.num_preemptions > 0) {
    text += fmt::format(", Preemptions: {}", interval_.num_preemptions);
  }
  return text + fmt::format(", {} KV cache usage: {:.1f}%, Prefix cache hit rate: {:.1f}%",
                            options_.device, interval_.kv_cache_usage * 100, hit_rate() * 100);
}

std::optional<LogLine> StatsLog::tick(double now_s) {
  const double elapsed = now_s - last_s_;
  if (elapsed < options_.interval_s) return std::nullopt;
  LogLine out;
  out.text = line(static_cast<double>(interval_.prompt_tokens_computed) / elapsed,
                  static_cast<double>(interval_.generation_tokens) / elapsed);
  // One all-zero line after the traffic stops, then silence.
  const bool busy = interval_.prompt_tokens_computed > 0 || interval_.generation_tokens > 0;
  out.level = busy || was_busy_ ? log::Level::kInfo : log::Level::kDebug;
  was_busy_ = busy;
  last_s_ = now_s;
  interval_.prompt_tokens_computed = 0;
  interval_.generation_tokens = 0;
  interval_.num_preemptions = 0;
  return out;
}

std::optional<std::string> PreemptionWarning::record(double now_s) {
  ++cumulative_;
  if (last_s_ && now_s - *last_s_ < interval_s_) return std::nullopt;
  last_s_ = now_s;
  return fmt::format(
      "A request is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV "
      "cache space. This can affect the end-to-end performance. Give the cache more memory "
      "(--kv-cache-memory-bytes or --gpu-memory-utilization) or run fewer requests at once "
      "(--max-num-seqs). total_cumulative_preemption_cnt={}",
      cumulative_);
}

}  // namespace octavo::observability
