#pragma once

#include <span>
#include <utility>
#include <vector>

namespace octavo::bench {

// Statistics as numpy computes them; all bench commands share them. An empty list gives 0.

double mean(std::span<const double> values);
/// Population standard deviation.
double standard_deviation(std::span<const double> values);
/// Percentile by linear interpolation between order statistics (numpy's default, Hyndman & Fan
/// type 7). `p` in [0, 100]; `sorted` ascending.
double percentile_of_sorted(std::span<const double> sorted, double p);

/// Mean, median, deviation and chosen percentiles of one list, in its unit.
struct Distribution {
  double mean = 0;
  double median = 0;
  double std = 0;
  std::vector<std::pair<double, double>> percentiles;  // p, value

  Distribution scaled(double factor) const;
};
Distribution describe(std::vector<double> values, std::span<const double> percentiles);

}  // namespace octavo::bench
