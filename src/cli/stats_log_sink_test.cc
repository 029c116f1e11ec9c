#include "cli/stats_log_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace octavo::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> lines_of(std::optional<double> interval_s) {
  std::vector<std::string> lines;
  ManualClock clock;
  const auto sink = make_stats_log_sink(
      interval_s, clock,
      [&](log::Level, log::Source, const std::string& line) { lines.push_back(line); });
  engine::SchedulerStats stats;
  stats.num_preemptions = 3;
  sink->record_step(stats, 10, 10);
  sink->tick(clock.monotonic_s() + 100);
  return lines;
}

TEST(StatsLogSink, WithoutStatsThePreemptionWarningStays) {
  EXPECT_THAT(lines_of(std::nullopt), ElementsAre(HasSubstr("is preempted by PreemptionMode")));
}

TEST(StatsLogSink, WritesBothLines) {
  EXPECT_THAT(lines_of(5.0), ElementsAre(HasSubstr("is preempted by PreemptionMode"),
                                         HasSubstr("Preemptions: 3")));
}

}  // namespace
}  // namespace octavo::cli
