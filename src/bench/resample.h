#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace octavo::bench {

/// A ratio of two sides with the interval that resampling gives it.
struct RatioInterval {
  double ratio = 1;
  double low = 1;
  double high = 1;
};

/// How ratios are resampled: percentile bootstrap (Efron 1979) of medians, by a generator that is a
/// function of seed and draw, so that a report can be made again bit for bit.
struct ResampleOptions {
  uint32_t seed = 0;
  size_t num_resamples = 10'000;
  double confidence = 0.9;
};

double median(std::span<const double> values);

/// median(b) / median(a), the runs of each side drawn independently. All values > 0, none empty.
RatioInterval ratio_of_medians(std::span<const double> a, std::span<const double> b,
                               const ResampleOptions& options);

/// Median of b[i] / a[i], rounds drawn: what is slow for a while is slow for both sides of a round
/// and cancels. Of the same length, all values > 0, not empty.
RatioInterval median_of_ratios(std::span<const double> a, std::span<const double> b,
                               const ResampleOptions& options);

}  // namespace octavo::bench
