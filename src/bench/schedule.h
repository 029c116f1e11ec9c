#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/numpy_random.h"
#include "bench/outcome.h"

namespace octavo::bench {

/// How requests arrive.
struct ArrivalOptions {
  double request_rate = 0;       // per second; infinite: all at once
  double burstiness = 1;         // shape of the gamma gaps: 1 Poisson, infinite constant
  std::string ramp_up_strategy;  // "", "linear", "exponential"
  int64_t ramp_up_start_rps = 0;
  int64_t ramp_up_end_rps = 0;
  bool self_timed = false;  // the requests carry their times
};

struct Arrivals {
  std::vector<double> times_s;  // of each request after the start of the run
  std::vector<double> rates;    // in force when it is sent
};

/// Times of the requests. Gaps are gamma-distributed with mean 1/rate; their sum is rescaled so
/// that the last request goes out at N/rate, but not in a ramp. Error: a rate that is not above 0.
Result<Arrivals> plan_arrivals(const ArrivalOptions& options,
                               std::span<const SampleRequest> requests, NumpyLegacy& random);

}  // namespace octavo::bench
