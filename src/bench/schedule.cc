#include "bench/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "config/command_line.h"

namespace octavo::bench {
namespace {

double rate_of(const ArrivalOptions& options, size_t index, size_t count) {
  if (options.ramp_up_strategy.empty()) return options.request_rate;
  const double progress = double(index) / double(std::max<size_t>(count - 1, 1));
  const auto start = double(options.ramp_up_start_rps);
  const auto end = double(options.ramp_up_end_rps);
  if (options.ramp_up_strategy == "linear") return start + (end - start) * progress;
  return start * std::pow(end / start, progress);
}

}  // namespace

Result<Arrivals> plan_arrivals(const ArrivalOptions& options,
                               std::span<const SampleRequest> requests, NumpyLegacy& random) {
  Arrivals out;
  if (options.self_timed) {
    for (const SampleRequest& request : requests) {
      out.times_s.push_back(request.timestamp_s.value_or(0));
    }
    out.rates.resize(requests.size());
    return out;
  }
  double time_s = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const double rate = rate_of(options, i, requests.size());
    if (!(rate > 0)) {
      return Error{Code::kInvalidArgument,
                   fmt::format("the request rate is {} for request {}: it must be above 0",
                               config::python_number(rate), i)};
    }
    if (std::isinf(options.burstiness) && !std::isinf(rate)) {
      time_s += 1 / rate;
    } else if (!std::isinf(rate)) {
      time_s += random.gamma(options.burstiness, 1 / (rate * options.burstiness));
    }
    out.rates.push_back(rate);
    out.times_s.push_back(time_s);
  }
  if (options.ramp_up_strategy.empty() && time_s != 0) {
    const double factor = double(requests.size()) / options.request_rate / time_s;
    for (double& time : out.times_s) time *= factor;
  }
  return out;
}

}  // namespace octavo::bench
