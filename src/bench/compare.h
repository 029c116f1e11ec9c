#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/resample.h"
#include "bench/run_set.h"

namespace octavo::bench {

struct CompareOptions {
  std::vector<std::string> variables;  // names of what may differ between the sides
  double min_effect = 0.01;            // a ratio nearer to 1 than this is never a verdict
  ResampleOptions resample;
};

enum class Verdict : uint8_t { kBetter, kWorse, kNotDistinguishable };
std::string_view name_of(Verdict verdict);

/// A field that is not the same on all sides. Values as JSON text, "" where a side has none; the
/// values of a side that does not agree with itself are joined by " | ".
struct Difference {
  std::string field;
  std::vector<std::string> values;  // one per side
};

/// A figure of one side over its runs.
struct Spread {
  std::vector<double> values;  // in the order of the runs
  double median = 0;
  double min = 0;
  double max = 0;
};

/// A side against the first.
struct Contrast {
  std::optional<RatioInterval> interval;  // unset: a value is 0, or there are too few runs
  std::optional<double> ratio;            // of the medians; unset: a value is 0
  Verdict verdict = Verdict::kNotDistinguishable;
  std::string note;  // why there is no verdict, or what weakens it; may be empty
};

struct MetricRow {
  std::string key;  // of the result JSON
  std::string title;
  bool is_higher_better = false;
  std::vector<Spread> sides;
  std::vector<Contrast> contrasts;  // sides 1, 2, ...
};

struct Side {
  std::string name;  // "A", "B", ...
  std::string path;
  size_t num_runs = 0;
  int64_t num_completed = 0;
  int64_t num_failed = 0;
};

struct Comparison {
  std::vector<Side> sides;
  CompareOptions options;
  bool is_one_session = false;         // all sides have the same rounds of one `bench repeat`
  bool is_paired = false;              // by those rounds, of which there are enough
  std::vector<Difference> undeclared;  // not empty: nothing is compared
  std::vector<Difference> declared;    // of the declared variables
  std::vector<Difference> following;   // that follow from them
  std::vector<std::string> warnings;
  std::vector<MetricRow> rows;

  bool is_refused() const { return !undeclared.empty(); }
};

/// Compares two to eight sides. Undeclared differences of conditions are found first; with any of
/// them there are no rows. Error: a variable that no field of any run is named by.
Result<Comparison> compare_runs(std::span<const RunSet> sides, const CompareOptions& options);

}  // namespace octavo::bench
