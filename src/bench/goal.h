#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace octavo::bench {

/// A limit that a run must keep: `ttft_p99_ms=500`.
struct Goal {
  std::string name;        // ttft_p99_ms
  std::string key;         // p99_ttft_ms, as results call it
  std::string metric;      // ttft
  std::string percentile;  // 99; empty: mean or median
  double limit_ms = 0;
};

/// METRIC_STAT_ms=NUMBER with a metric of ttft, tpot, itl, e2el and a statistic of mean, median,
/// std or pNN. Errors name what is wrong.
Result<Goal> parse_goal(std::string_view text);

/// What one run of `bench serve` says of the goals.
struct RunVerdict {
  bool is_good = false;
  std::vector<double> values_ms;  // as the goals
  std::string reason;             // why not; empty when good
};

/// Good: every goal is kept, no request failed, and the backlog did not grow while requests were
/// sent at a finite rate (see `backlog_grows`). `result`: a detailed result. A result without a
/// goal's key is not good.
RunVerdict judge_run(const nlohmann::ordered_json& result, std::span<const Goal> goals);

/// Whether a server falls behind: in a run with a constant mean rate, the mean number of requests
/// under way in the last quarter of the sending time against the second quarter. At a steady rate
/// both are alike; at a rate that is too high it grows with time, to 7/3 of it. True beyond 1.6
/// times and two standard deviations of a Poisson count. Fewer than 16 requests say nothing.
/// `start_s`, `end_s`: of each request, in the same order.
bool backlog_grows(std::span<const double> start_s, std::span<const double> end_s);

}  // namespace octavo::bench
