#include "bench/sweep_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>

#include "bench/command_flags.h"
#include "bench/tune_target.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> to_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> number_of(const Json& run, std::string_view variable) {
  const auto found = run.find(variable);
  if (found == run.end()) return std::nullopt;
  if (found->is_number()) return found->get<double>();
  return found->is_string() ? to_number(found->get<std::string>()) : std::nullopt;
}

std::vector<double> numbers_of(const SweepPoint& point, std::string_view variable) {
  std::vector<double> out;
  for (const Json& run : point.runs) {
    if (const auto value = number_of(run, variable)) out.push_back(*value);
  }
  return out;
}

Error invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

}  // namespace

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, comma);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    if (!word.empty()) out.emplace_back(word);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return out;
}

double SweepPoint::mean(std::string_view variable) const {
  const std::vector<double> values = numbers_of(*this, variable);
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : sum / double(values.size());
}

double SweepPoint::lowest(std::string_view variable) const {
  const std::vector<double> values = numbers_of(*this, variable);
  return values.empty() ? mean(variable) : *std::ranges::min_element(values);
}

double SweepPoint::highest(std::string_view variable) const {
  const std::vector<double> values = numbers_of(*this, variable);
  return values.empty() ? mean(variable) : *std::ranges::max_element(values);
}

std::string SweepPoint::text(std::string_view variable) const {
  if (runs.empty()) return "";
  const auto found = runs[0].find(variable);
  return found == runs[0].end() ? "" : parameter_text(*found);
}

bool SweepPoint::has(std::string_view variable) const {
  return std::ranges::any_of(runs, [&](const Json& run) { return run.contains(variable); });
}

Result<std::vector<SweepPoint>> read_experiment(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path summary = entry->path() / "summary.json";
    std::error_code ignored;
    if (fs::is_regular_file(summary, ignored)) paths.push_back(summary.string());
  }
  if (paths.empty()) return invalid(fmt::format("{} has no results of a sweep", folder));
  std::ranges::sort(paths);
  std::vector<SweepPoint> points;
  for (const std::string& path : paths) {
    OCTAVO_TRY(const Json json, read_json_file(path));
    SweepPoint point{fs::path(path).parent_path().filename().string(), {}};
    if (!json.is_array()) return invalid(fmt::format("{} is no list of runs", path));
    for (const Json& run : json) {
      if (!run.is_object()) return invalid(fmt::format("{} is no list of runs", path));
      point.runs.push_back(run);
    }
    points.push_back(std::move(point));
  }
  return points;
}

bool SweepFilter::accepts(const Json& run) const {
  const auto found = run.find(variable);
  if (found == run.end()) return false;
  const auto have = number_of(run, variable);
  const auto want = to_number(value);
  if (!have || !want) {
    const bool is_equal = parameter_text(*found) == value;
    return comparison == "==" ? is_equal : comparison == "!=" && !is_equal;
  }
  if (comparison == "==") return *have == *want;
  if (comparison == "!=") return *have != *want;
  if (comparison == "<=") return *have <= *want;
  if (comparison == ">=") return *have >= *want;
  return comparison == "<" ? *have < *want : *have > *want;
}

Result<std::vector<SweepFilter>> parse_filters(std::string_view text) {
  constexpr auto kComparisons = std::to_array<std::string_view>({"==", "!=", "<=", ">=", "<", ">"});
  std::vector<SweepFilter> filters;
  for (const std::string& statement : split_list(text)) {
    size_t at = std::string::npos;
    std::string_view comparison;
    for (const std::string_view known : kComparisons) {
      const size_t found = statement.find(known);
      if (found < at) at = found, comparison = known;
    }
    if (at == std::string::npos || at == 0 || at + comparison.size() == statement.size()) {
      return invalid(fmt::format("--filter-by: '{}' is not like a<5", statement));
    }
    filters.push_back({statement.substr(0, at), std::string(comparison),
                       statement.substr(at + comparison.size())});
  }
  return filters;
}

Result<std::vector<SweepBin>> parse_bins(std::string_view text) {
  std::vector<SweepBin> bins;
  for (const std::string& statement : split_list(text)) {
    const size_t at = statement.find('%');
    const auto size =
        at == std::string::npos || at == 0 ? std::nullopt : to_number(statement.substr(at + 1));
    if (!size || !(*size > 0) || !std::isfinite(*size)) {
      return invalid(fmt::format("--bin-by: '{}' is not like a%5", statement));
    }
    bins.push_back({statement.substr(0, at), *size});
  }
  return bins;
}

std::vector<SweepPoint> select_points(std::vector<SweepPoint> points,
                                      const std::vector<SweepFilter>& filters,
                                      const std::vector<SweepBin>& bins) {
  for (SweepPoint& point : points) {
    std::erase_if(point.runs, [&](const Json& run) {
      return !std::ranges::all_of(filters,
                                  [&](const SweepFilter& filter) { return filter.accepts(run); });
    });
    for (Json& run : point.runs) {
      for (const SweepBin& bin : bins) {
        const auto value = number_of(run, bin.variable);
        if (value && std::isfinite(*value)) {
          run[bin.variable] = std::floor(*value / bin.size) * bin.size;
        }
      }
    }
  }
  std::erase_if(points, [](const SweepPoint& point) { return point.runs.empty(); });
  return points;
}

std::vector<size_t> pareto_front(const std::vector<std::pair<double, double>>& points) {
  std::vector<size_t> order;
  for (size_t i = 0; i < points.size(); ++i) {
    if (std::isfinite(points[i].first) && std::isfinite(points[i].second)) order.push_back(i);
  }
  // From the highest x on; of equal ones the highest y first, so that it alone can be on the front.
  std::ranges::sort(order, [&](size_t a, size_t b) {
    if (points[a].first != points[b].first) return points[a].first > points[b].first;
    return points[a].second > points[b].second;
  });
  std::vector<size_t> front;
  double best = -std::numeric_limits<double>::infinity();
  for (const size_t i : order) {
    if (points[i].second <= best) continue;
    best = points[i].second;
    front.push_back(i);
  }
  std::ranges::reverse(front);
  return front;
}

}  // namespace octavo::bench
