#include "cli/stats_log_sink.h"

#include <string>
#include <utility>

#include "observability/stats_log.h"

namespace octavo::cli {
namespace {

class StatsLogSink final : public frontend::StatsSink {
 public:
  StatsLogSink(std::optional<double> interval_s, const Clock& clock, LineWriter write)
      : clock_(clock), write_(std::move(write)) {
    if (!interval_s) return;
    stats_log_.emplace(
        observability::StatsLog::Options{
            .engine_index = 0, .device = "CPU", .interval_s = *interval_s},
        clock.monotonic_s());
  }

  void record_step(const engine::SchedulerStats& stats, int64_t num_prompt_tokens,
                   int64_t num_generation_tokens) override {
    observability::StatsLog::Step step;
    step.prompt_tokens_computed = num_prompt_tokens;
    step.generation_tokens = num_generation_tokens;
    step.num_preemptions = stats.num_preemptions - num_preemptions_;
    step.prefix_requests = static_cast<int64_t>(stats.prefix_cache_admissions.size());
    for (const auto& [queried, hit] : stats.prefix_cache_admissions) {
      step.prefix_query_tokens += queried;
      step.prefix_hit_tokens += hit;
    }
    step.num_running = stats.num_running;
    step.num_waiting = stats.num_waiting + stats.num_skipped;
    step.num_deferred = stats.num_skipped;
    step.kv_cache_usage = stats.kv_cache_usage;
    if (stats_log_) stats_log_->record(step);
    for (; num_preemptions_ < stats.num_preemptions; ++num_preemptions_) {
      const auto text = preemptions_.record(clock_.monotonic_s());
      if (text) write_(log::Level::kWarning, log::Source::kEngineCore, *text);
    }
  }

  void tick(double monotonic_s) override {
    if (!stats_log_) return;
    if (const auto line = stats_log_->tick(monotonic_s)) {
      write_(line->level, log::Source::kApiServer, line->text);
    }
  }

 private:
  const Clock& clock_;
  LineWriter write_;
  std::optional<observability::StatsLog> stats_log_;
  observability::PreemptionWarning preemptions_;
  int64_t num_preemptions_ = 0;
};

}  // namespace

std::unique_ptr<frontend::StatsSink> make_stats_log_sink(std::optional<double> interval_s,
                                                         const Clock& clock, LineWriter write) {
  if (!write) {
    write = [](log::Level level, log::Source source, const std::string& line) {
      log::log(level, source, "{}", line);
    };
  }
  return std::make_unique<StatsLogSink>(interval_s, clock, std::move(write));
}

}  // namespace octavo::cli
