#pragma once

#include <limits>
#include <optional>

namespace octavo::bench {

/// Finds the highest rate that is sustained, from verdicts on single rates: doubles until one is
/// not, halves until one is, then takes the geometric mean between.
class RateBisection {
 public:
  struct Limits {
    double start = 1;         // the first rate to try
    double lowest = 0.01;     // none below is tried
    double highest = 1e6;     // none above
    double resolution = 0.1;  // done when failed / sustained - 1 is not larger
  };
  explicit RateBisection(const Limits& limits) : limits_(limits) {}

  /// The next rate to try, nullopt when the answer is known.
  std::optional<double> next() const;
  void record(double rate, bool is_sustained);

  /// The highest sustained rate; 0: none was.
  double sustained() const { return sustained_; }
  /// The lowest that was not; infinite: all were.
  double failed() const { return failed_; }

 private:
  Limits limits_;
  double sustained_ = 0;
  double failed_ = std::numeric_limits<double>::infinity();
};

}  // namespace octavo::bench
