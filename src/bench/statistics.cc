#include "bench/statistics.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace octavo::bench {
namespace {

/// Sum by halves, as numpy adds: the error grows with the logarithm of the length.
double pairwise_sum(std::span<const double> values) {
  if (values.size() <= 8) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum;
  }
  const size_t half = values.size() / 2;
  return pairwise_sum(values.first(half)) + pairwise_sum(values.subspan(half));
}

}  // namespace

double mean(std::span<const double> values) {
  return values.empty() ? 0 : pairwise_sum(values) / double(values.size());
}

double standard_deviation(std::span<const double> values) {
  if (values.empty()) return 0;
  const double center = mean(values);
  std::vector<double> squares(values.begin(), values.end());
  for (double& value : squares) value = (value - center) * (value - center);
  return std::sqrt(mean(squares));
}

double percentile_of_sorted(std::span<const double> sorted, double p) {
  CHECK(p >= 0 && p <= 100);
  if (sorted.empty()) return 0;
  const double position = p / 100 * double(sorted.size() - 1);
  const auto below = std::min(size_t(position), sorted.size() - 1);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double fraction = position - double(below);
  const double gap = sorted[above] - sorted[below];
  return fraction < 0.5 ? sorted[below] + gap * fraction : sorted[above] - gap * (1 - fraction);
}

Distribution Distribution::scaled(double factor) const {
  Distribution out = *this;
  out.mean *= factor;
  out.median *= factor;
  out.std *= factor;
  for (auto& [p, value] : out.percentiles) value *= factor;
  return out;
}

Distribution describe(std::vector<double> values, std::span<const double> percentiles) {
  Distribution out;
  out.mean = mean(values);
  out.std = standard_deviation(values);
  std::sort(values.begin(), values.end());
  out.median = percentile_of_sorted(values, 50);
  for (const double p : percentiles) {
    out.percentiles.emplace_back(p, percentile_of_sorted(values, p));
  }
  return out;
}

}  // namespace octavo::bench
