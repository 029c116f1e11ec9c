#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace octavo::bench {

/// Flags beyond the server's own command: name without dashes, value.
using ServerFlags = std::vector<std::pair<std::string, std::string>>;

/// One run of the workload at one rate.
struct TuneRun {
  double rate = 0;  // requests/s offered; infinite: all at once
  bool is_good = false;
  std::vector<double> values_ms;  // of the goals
  std::string reason;             // why not good
  double request_throughput = 0;
  std::string result_file;
};

/// What a tuner drives: a server that can be started with flags, and a load. Errors: kCancelled
/// ends the search (time is up, a signal), any other one the step.
class TuneTarget {
 public:
  virtual ~TuneTarget() = default;
  /// Stops the server of before, starts one with these flags.
  virtual Status start(const ServerFlags& flags) = 0;
  /// What the running server uses for a flag; nullopt: it does not say.
  virtual std::optional<std::string> value_in_use(const std::string& flag) = 0;
  virtual Result<TuneRun> run(double rate, int64_t num_prompts) = 0;
};

/// A flag to try. Without values the number in use is doubled, then halved, as long as that helps.
struct Knob {
  std::string name;
  std::vector<std::string> values;
};
/// What is tried unless somebody says otherwise.
std::vector<Knob> default_knobs();

struct TunePlan {
  std::vector<Knob> knobs;
  double lowest_rate = 0.1;
  double highest_rate = 10000;
  double resolution = 0.1;   // of the rate that is found
  double least_gain = 0.05;  // a flag that gains less is not kept
  int64_t num_repeats = 3;   // of each rate; the majority decides
  double run_seconds = 30;   // of sending
  int64_t least_prompts = 30;
};

/// A rate with its runs.
struct RateTest {
  double rate = 0;
  bool is_sustained = false;
  std::vector<TuneRun> runs;
};

/// The search with one set of flags.
struct TuneStep {
  std::string knob;  // empty: the command as it is
  std::string value;
  std::string value_before;  // in use without it; empty: unknown
  ServerFlags flags;         // all of this step
  double sustained = 0;      // requests/s; 0: no rate was
  double failed = std::numeric_limits<double>::infinity();
  bool is_kept = false;
  std::string note;  // why it ended early
  std::vector<RateTest> tests;
};

struct TuneResult {
  std::vector<TuneStep> steps;  // the first without flags
  ServerFlags chosen;
  double baseline_rate = 0;
  double rate = 0;        // with the chosen flags
  std::string cut_short;  // why not everything was tried; empty when it was
};

/// Finds the highest sustained rate with the command as it is, then tries one knob at a time and
/// keeps what sustains a rate that the best flags so far did not, at least `least_gain` above
/// theirs; later knobs are tried with the kept flags.
class Tuner {
 public:
  using Say = std::function<void(const std::string&)>;
  Tuner(const TunePlan& plan, TuneTarget& target, Say say)
      : plan_(plan), target_(target), say_(std::move(say)) {}

  /// Error: not even the first step could be made. An end before the end is in `cut_short`.
  Result<TuneResult> run();

 private:
  Status measure_baseline();
  Status try_knob(const Knob& knob);
  /// One value; whether it was kept. Error: kCancelled only.
  Result<bool> try_value(const std::string& name, const std::string& value,
                         const std::string& value_before);
  Status climb(const std::string& name, int64_t value_before);
  /// Bisects from `start`; with `needs_start` it ends when that rate is not sustained.
  Status search(double start, bool needs_start, TuneStep& step);
  Result<bool> test_rate(double rate, TuneStep& step);
  /// Remembers what the running server, which has the chosen flags, uses for each knob.
  void note_values_in_use();
  /// What a flag must reach to be kept.
  double needed_rate() const;
  /// Whether that may be tried at all.
  bool has_room() const;

  const TunePlan plan_;
  TuneTarget& target_;
  const Say say_;
  TuneResult result_;
  double failed_ = std::numeric_limits<double>::infinity();  // with the chosen flags
  std::map<std::string, std::string> values_in_use_;         // with the chosen flags
};

}  // namespace octavo::bench
