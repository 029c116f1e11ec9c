#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace octavo::bench {

/// One combination of a sweep with its runs.
struct SweepPoint {
  std::string folder;
  std::vector<nlohmann::ordered_json> runs;

  /// Of the runs that have the variable as a number; NaN when none has. "inf" is infinite.
  double mean(std::string_view variable) const;
  double lowest(std::string_view variable) const;
  double highest(std::string_view variable) const;
  /// As it stands in the first run; empty when it is not there.
  std::string text(std::string_view variable) const;
  bool has(std::string_view variable) const;
};

/// Every summary.json one folder down, in the order of the folders' names. Error: none, one that is
/// no list of objects.
Result<std::vector<SweepPoint>> read_experiment(const std::string& folder);

/// "a<5,b==x": runs that meet all statements; ==, !=, <=, >=, <, >. Numbers are compared as
/// numbers, anything else (only equal or not) as text. A run without the variable meets none.
struct SweepFilter {
  std::string variable;
  std::string comparison;
  std::string value;
  bool accepts(const nlohmann::ordered_json& run) const;
};
Result<std::vector<SweepFilter>> parse_filters(std::string_view text);

/// "a%5": values of a variable are lowered to the multiple of the number.
struct SweepBin {
  std::string variable;
  double size = 1;
};
Result<std::vector<SweepBin>> parse_bins(std::string_view text);

/// Drops runs that a filter refuses, and points without runs; bins values.
std::vector<SweepPoint> select_points(std::vector<SweepPoint> points,
                                      const std::vector<SweepFilter>& filters,
                                      const std::vector<SweepBin>& bins);

/// Indices of the points that no other one beats: another is at least as high in both and higher in
/// one. Ascending in x. Points that are not finite are left out.
std::vector<size_t> pareto_front(const std::vector<std::pair<double, double>>& points);

/// Words between commas, without blanks around them.
std::vector<std::string> split_list(std::string_view text);

}  // namespace octavo::bench
