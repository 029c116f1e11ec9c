#include "bench/goal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;

Error wrong(std::string_view text, std::string_view why) {
  return {Code::kInvalidArgument,
          fmt::format("--goal {}: {}; write METRIC_STAT_ms=NUMBER, for example ttft_p99_ms=500",
                      text, why)};
}

std::optional<double> to_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

/// Mean number of requests under way between `from` and `to`.
double mean_under_way(std::span<const double> start_s, std::span<const double> end_s, double from,
                      double to) {
  double busy = 0;
  for (size_t i = 0; i < start_s.size(); ++i) {
    busy += std::max(0.0, std::min(end_s[i], to) - std::max(start_s[i], from));
  }
  return busy / (to - from);
}

std::vector<double> numbers(const Json& result, const char* key) {
  std::vector<double> out;
  if (!result.contains(key) || !result[key].is_array()) return out;
  for (const Json& value : result[key]) {
    if (!value.is_number()) return {};
    out.push_back(value.get<double>());
  }
  return out;
}

/// The backlog of a detailed result; false when it does not tell.
bool result_backlog_grows(const Json& result) {
  // All at once: there is no rate to keep up with.
  if (result.contains("request_rate") && result["request_rate"].is_string()) return false;
  const std::vector<double> starts = numbers(result, "start_times");
  std::vector<double> ends = numbers(result, "latencies");
  if (starts.size() != ends.size()) return false;
  for (size_t i = 0; i < ends.size(); ++i) ends[i] += starts[i];
  return backlog_grows(starts, ends);
}

}  // namespace

Result<Goal> parse_goal(std::string_view text) {
  constexpr auto kMetrics = std::to_array<std::string_view>({"ttft", "tpot", "itl", "e2el"});
  constexpr auto kStatistics = std::to_array<std::string_view>({"mean", "median", "std"});
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return wrong(text, "there is no '='");
  const auto limit = to_number(text.substr(equals + 1));
  if (!limit || *limit <= 0) return wrong(text, "the limit is not a number above 0");
  const std::string_view name = text.substr(0, equals);
  const size_t first = name.find('_');
  const size_t last = name.rfind('_');
  if (first == std::string_view::npos || first == last || name.substr(last) != "_ms") {
    return wrong(text, "the name has another form");
  }
  const std::string_view metric = name.substr(0, first);
  const std::string_view statistic = name.substr(first + 1, last - first - 1);
  if (std::ranges::find(kMetrics, metric) == kMetrics.end()) {
    return wrong(text, "the metric is not one of ttft, tpot, itl, e2el");
  }
  Goal goal{std::string(name), fmt::format("{}_{}_ms", statistic, metric), std::string(metric), "",
            *limit};
  if (std::ranges::find(kStatistics, statistic) != kStatistics.end()) return goal;
  const auto p = statistic.starts_with('p') ? to_number(statistic.substr(1)) : std::nullopt;
  if (!p || *p < 0 || *p > 100) {
    return wrong(text, "the statistic is not one of mean, median, std, p0 to p100");
  }
  goal.percentile = statistic.substr(1);
  return goal;
}

RunVerdict judge_run(const nlohmann::ordered_json& result, std::span<const Goal> goals) {
  RunVerdict verdict;
  const auto number = [&](const std::string& key) -> std::optional<double> {
    if (!result.is_object() || !result.contains(key) || !result[key].is_number()) {
      return std::nullopt;
    }
    return result[key].get<double>();
  };
  const auto blame = [&](std::string why) {
    verdict.reason += (verdict.reason.empty() ? "" : ", ") + std::move(why);
  };
  for (const Goal& goal : goals) {
    const auto value = number(goal.key);
    verdict.values_ms.push_back(value.value_or(std::nan("")));
    if (!value) {
      blame(fmt::format("no {} in the result", goal.key));
    } else if (*value > goal.limit_ms) {
      blame(fmt::format("{} {:.1f} > {:g}", goal.name, *value, goal.limit_ms));
    }
  }
  const double failed = number("failed").value_or(0);
  if (!(number("completed").value_or(0) > 0)) blame("no request was answered");
  if (failed > 0) blame(fmt::format("{:.0f} requests failed", failed));
  if (result_backlog_grows(result)) blame("the backlog grows");
  verdict.is_good = verdict.reason.empty();
  return verdict;
}

bool backlog_grows(std::span<const double> start_s, std::span<const double> end_s) {
  constexpr size_t kFewest = 16;
  constexpr double kFactor = 1.6;
  if (start_s.size() < kFewest || start_s.size() != end_s.size()) return false;
  const auto [low, high] = std::ranges::minmax(start_s);
  const double quarter = (high - low) / 4;
  if (!(quarter > 0)) return false;
  const double early = mean_under_way(start_s, end_s, low + quarter, low + 2 * quarter);
  const double late = mean_under_way(start_s, end_s, high - quarter, high);
  return late > kFactor * early && late > early + 2 * std::sqrt(std::max(early, 1.0));
}

}  // namespace octavo::bench
