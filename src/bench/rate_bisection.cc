#include "bench/rate_bisection.h"

#include <algorithm>
#include <cmath>

namespace octavo::bench {
namespace {

/// Three significant digits: rates are read by people.
double rounded(double rate) {
  const double unit = std::pow(10, std::floor(std::log10(rate)) - 2);
  return std::round(rate / unit) * unit;
}

}  // namespace

std::optional<double> RateBisection::next() const {
  const bool any_sustained = sustained_ > 0;
  const bool any_failed = std::isfinite(failed_);
  const auto within = [&](double rate) {
    return std::clamp(rounded(rate), limits_.lowest, limits_.highest);
  };
  if (!any_sustained && !any_failed) return within(limits_.start);
  if (!any_failed) {
    if (sustained_ >= limits_.highest) return std::nullopt;
    return within(sustained_ * 2);
  }
  if (!any_sustained) {
    if (failed_ <= limits_.lowest) return std::nullopt;
    return within(failed_ / 2);
  }
  if (failed_ / sustained_ <= 1 + limits_.resolution) return std::nullopt;
  const double middle = within(std::sqrt(sustained_ * failed_));
  // Rounded onto an end: they are as near as rates are told apart.
  if (middle <= sustained_ || middle >= failed_) return std::nullopt;
  return middle;
}

void RateBisection::record(double rate, bool is_sustained) {
  if (is_sustained) {
    sustained_ = std::max(sustained_, rate);
  } else {
    failed_ = std::min(failed_, rate);
  }
  // A slow moment may fail what a higher rate sustains: the higher one is the better witness.
  if (failed_ < sustained_) failed_ = std::numeric_limits<double>::infinity();
}

}  // namespace octavo::bench
