#include "bench/resample.h"

#include <algorithm>

#include "base/check.h"
#include "base/random.h"
#include "bench/statistics.h"

namespace octavo::bench {
namespace {

constexpr uint32_t kStreamA = 0;
constexpr uint32_t kStreamB = 1;

/// Draw `draw` of resample `resample`, uniform in [0, count).
size_t drawn(const ResampleOptions& options, uint32_t stream, size_t resample, size_t draw,
             size_t count) {
  const uint32_t bits =
      philox4x32({uint32_t(resample), uint32_t(draw), stream, 0}, {options.seed, 0x5EED})[0];
  return size_t((uint64_t(bits) * count) >> 32);
}

double resampled_median(std::span<const double> values, const ResampleOptions& options,
                        uint32_t stream, size_t resample, std::vector<double>& scratch) {
  scratch.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    scratch[i] = values[drawn(options, stream, resample, i, values.size())];
  }
  std::sort(scratch.begin(), scratch.end());
  return percentile_of_sorted(scratch, 50);
}

RatioInterval interval_of(double ratio, std::vector<double> ratios,
                          const ResampleOptions& options) {
  std::sort(ratios.begin(), ratios.end());
  const double tail = (1 - options.confidence) / 2 * 100;
  return {ratio, percentile_of_sorted(ratios, tail), percentile_of_sorted(ratios, 100 - tail)};
}

}  // namespace

double median(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return percentile_of_sorted(sorted, 50);
}

RatioInterval ratio_of_medians(std::span<const double> a, std::span<const double> b,
                               const ResampleOptions& options) {
  CHECK(!a.empty() && !b.empty());
  std::vector<double> ratios(options.num_resamples);
  std::vector<double> scratch;
  for (size_t i = 0; i < ratios.size(); ++i) {
    const double below = resampled_median(a, options, kStreamA, i, scratch);
    ratios[i] = resampled_median(b, options, kStreamB, i, scratch) / below;
  }
  return interval_of(median(b) / median(a), std::move(ratios), options);
}

RatioInterval median_of_ratios(std::span<const double> a, std::span<const double> b,
                               const ResampleOptions& options) {
  CHECK(!a.empty() && a.size() == b.size());
  std::vector<double> rounds(a.size());
  for (size_t i = 0; i < a.size(); ++i) rounds[i] = b[i] / a[i];
  std::vector<double> ratios(options.num_resamples);
  std::vector<double> scratch;
  for (size_t i = 0; i < ratios.size(); ++i) {
    ratios[i] = resampled_median(rounds, options, kStreamA, i, scratch);
  }
  return interval_of(median(rounds), std::move(ratios), options);
}

}  // namespace octavo::bench
