#include "observability/stats_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace octavo::observability {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(StatsLog, PrintsTheLineOperatorsKnow) {
  StatsLog log({.engine_index = 0, .device = "GPU", .interval_s = 10}, 100);
  StatsLog::Step step;
  step.prompt_tokens_computed = 3396;
  step.generation_tokens = 499;
  step.prefix_requests = 3;
  step.prefix_query_tokens = 100;
  step.prefix_hit_tokens = 32;
  step.num_running = 3;
  step.num_waiting = 3;
  step.num_deferred = 1;
  step.kv_cache_usage = 0.421;
  log.record(step);
  EXPECT_FALSE(log.tick(109.9).has_value());
  const auto line = log.tick(110);
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->level, log::Level::kInfo);
  EXPECT_EQ(line->text,
            "Engine 000: Avg prompt throughput: 339.6 tokens/s, Avg generation throughput: 49.9 "
            "tokens/s, Running: 3 reqs, Waiting: 3 reqs, Deferred: 1 reqs, GPU KV cache usage: "
            "42.1%, Prefix cache hit rate: 32.0%");
}

TEST(StatsLog, FallsSilentAfterOneIdleLine) {
  StatsLog log({}, 0);
  EXPECT_EQ(log.tick(5)->level, log::Level::kDebug);
  StatsLog::Step step;
  step.generation_tokens = 10;
  log.record(step);
  EXPECT_EQ(log.tick(10)->level, log::Level::kInfo);
  const auto idle = log.tick(15);
  EXPECT_EQ(idle->level, log::Level::kInfo);
  EXPECT_THAT(idle->text, HasSubstr("Avg generation throughput: 0.0 tokens/s"));
  EXPECT_THAT(idle->text, HasSubstr("CPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%"));
  EXPECT_EQ(log.tick(20)->level, log::Level::kDebug);
}

TEST(StatsLog, ShowsPreemptionsOfTheInterval) {
  StatsLog log({}, 0);
  StatsLog::Step step;
  step.num_preemptions = 2;
  log.record(step);
  log.record(step);
  EXPECT_THAT(log.tick(5)->text, HasSubstr("Waiting: 0 reqs, Preemptions: 4, CPU KV cache usage"));
  EXPECT_THAT(log.tick(10)->text, Not(HasSubstr("Preemptions")));
}

TEST(StatsLog, DividesByTheTimeThatReallyPassed) {
  StatsLog log({}, 0);
  StatsLog::Step step;
  step.generation_tokens = 100;
  log.record(step);
  EXPECT_THAT(log.tick(10)->text, HasSubstr("Avg generation throughput: 10.0 tokens/s"));
}

TEST(StatsLog, HitRateForgetsOldRequests) {
  StatsLog log({}, 0);
  StatsLog::Step step;
  step.prefix_requests = 500;
  step.prefix_query_tokens = 1000;
  step.prefix_hit_tokens = 1000;
  log.record(step);
  step.prefix_hit_tokens = 0;
  log.record(step);
  EXPECT_THAT(log.tick(5)->text, HasSubstr("Prefix cache hit rate: 50.0%"));
  log.record(step);
  EXPECT_THAT(log.tick(10)->text, HasSubstr("Prefix cache hit rate: 0.0%"));
}

TEST(PreemptionWarning, IsRateLimitedButCountsAll) {
  PreemptionWarning warning(5.0);
  const auto first = warning.record(10);
  ASSERT_TRUE(first.has_value());
  EXPECT_THAT(*first, HasSubstr("A request is preempted by PreemptionMode.RECOMPUTE mode"));
  EXPECT_THAT(*first, HasSubstr("total_cumulative_preemption_cnt=1"));
  EXPECT_FALSE(warning.record(14.9).has_value());
  EXPECT_THAT(*warning.record(15), HasSubstr("total_cumulative_preemption_cnt=3"));
}

}  // namespace
}  // namespace octavo::observability
