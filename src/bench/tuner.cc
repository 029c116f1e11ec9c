#include "bench/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "bench/rate_bisection.h"

namespace octavo::bench {
namespace {

constexpr int64_t kMostPrompts = 100000;  // of a run

std::optional<int64_t> to_integer(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string describe(const RateTest& test) {
  const auto good = std::ranges::count_if(test.runs, &TuneRun::is_good);
  return fmt::format("  {:g} req/s: {} ({} of {} runs good)", test.rate,
                     test.is_sustained ? "sustained" : "not sustained", good, test.runs.size());
}

}  // namespace

std::vector<Knob> default_knobs() {
  return {{"max-num-seqs", {}},
          {"max-num-batched-tokens", {}},
          {"performance-mode", {"throughput", "interactivity", "balanced"}},
          {"kv-cache-dtype", {"fp8"}}};
}

Result<TuneResult> Tuner::run() {
  Status status = measure_baseline();
  for (const Knob& knob : plan_.knobs) {
    if (!status.ok() || !has_room()) break;
    status = try_knob(knob);
  }
  if (!status.ok() && status.error().code != Code::kCancelled) return status.error();
  if (!status.ok()) result_.cut_short = status.error().message;
  return std::move(result_);
}

Status Tuner::measure_baseline() {
  say_("Step 1: the command as it is");
  result_.steps.emplace_back();
  TuneStep& step = result_.steps.back();
  step.is_kept = true;
  OCTAVO_TRY(target_.start({}));
  note_values_in_use();
  // All at once: what the server answers then bounds the rate from above, nearly.
  constexpr double kAtOnce = std::numeric_limits<double>::infinity();
  OCTAVO_TRY(const TuneRun burst, target_.run(kAtOnce, plan_.least_prompts));
  if (!(burst.request_throughput > 0)) {
    return Error{Code::kUnavailable,
                 fmt::format("the server answered no request: {}", burst.reason)};
  }
  step.tests.push_back({kAtOnce, burst.is_good, {burst}});
  say_(fmt::format("  all at once: {:.3g} req/s are answered", burst.request_throughput));
  constexpr double kShare = 0.8;  // the goals usually bind before
  const Status status = search(burst.request_throughput * kShare, false, step);
  result_.baseline_rate = result_.rate = step.sustained;
  failed_ = step.failed;
  say_(fmt::format("  -> {:g} req/s", step.sustained));
  return status;
}

void Tuner::note_values_in_use() {
  for (const Knob& knob : plan_.knobs) {
    if (const auto value = target_.value_in_use(knob.name)) values_in_use_[knob.name] = *value;
  }
}

Status Tuner::try_knob(const Knob& knob) {
  const auto known = values_in_use_.find(knob.name);
  const std::string in_use = known == values_in_use_.end() ? "" : known->second;
  const auto number = to_integer(in_use);
  if (knob.values.empty() && number && *number > 0) return climb(knob.name, *number);
  std::vector<std::string> values = knob.values;
  if (values.empty()) {
    // A server that does not tell what it uses: some usual values.
    values = knob.name == "max-num-seqs" ? std::vector<std::string>{"64", "256"}
                                         : std::vector<std::string>{"512", "2048", "8192"};
  }
  for (const std::string& value : values) {
    if (in_use == value || in_use.starts_with(value + "_")) continue;  // fp8 is fp8_e4m3
    if (!has_room()) break;
    OCTAVO_TRY(try_value(knob.name, value, in_use));
  }
  return {};
}

double Tuner::needed_rate() const {
  double needed = std::max(result_.rate * (1 + plan_.least_gain), plan_.lowest_rate);
  // Between what the best flags so far sustain and what they do not, nothing is known of them: only
  // a rate that they failed tells another value from them.
  if (std::isfinite(failed_)) needed = std::max(needed, failed_);
  const double unit = std::pow(10, std::floor(std::log10(needed)) - 2);
  return std::ceil(needed / unit * (1 - 1e-9)) * unit;
}

bool Tuner::has_room() const { return needed_rate() <= plan_.highest_rate; }

Status Tuner::climb(const std::string& name, int64_t value_before) {
  constexpr int64_t kMost = 1 << 20;
  const std::string before = std::to_string(value_before);
  for (const bool is_up : {true, false}) {
    bool any_kept = false;
    for (int64_t value = is_up ? value_before * 2 : value_before / 2; value >= 1 && value <= kMost;
         value = is_up ? value * 2 : value / 2) {
      if (!has_room()) return {};
      OCTAVO_TRY(const bool is_kept, try_value(name, std::to_string(value), before));
      if (!is_kept) break;
      any_kept = true;
    }
    if (any_kept) break;
  }
  return {};
}

Result<bool> Tuner::try_value(const std::string& name, const std::string& value,
                              const std::string& value_before) {
  say_(fmt::format("Step {}: --{} {}{}", result_.steps.size() + 1, name, value,
                   value_before.empty() ? "" : fmt::format(" (was {})", value_before)));
  result_.steps.emplace_back();
  TuneStep& step = result_.steps.back();
  step.knob = name;
  step.value = value;
  step.value_before = value_before;
  step.flags = result_.chosen;
  std::erase_if(step.flags, [&](const auto& flag) { return flag.first == name; });
  step.flags.emplace_back(name, value);
  const double needed = needed_rate();
  Status status = target_.start(step.flags);
  if (status.ok()) status = search(needed, true, step);
  if (!status.ok()) step.note = status.error().message;
  step.is_kept = step.sustained >= needed;
  if (step.is_kept) {
    result_.chosen = step.flags;
    result_.rate = step.sustained;
    failed_ = step.failed;
    note_values_in_use();
  }
  say_(step.is_kept        ? fmt::format("  -> kept: {:g} req/s", step.sustained)
       : step.note.empty() ? fmt::format("  -> not kept: {:.3g} req/s are not sustained", needed)
                           : fmt::format("  -> not kept: {}", step.note));
  if (!status.ok() && status.error().code == Code::kCancelled) return status.error();
  return step.is_kept;
}

Status Tuner::search(double start, bool needs_start, TuneStep& step) {
  RateBisection bisection({start, plan_.lowest_rate, plan_.highest_rate, plan_.resolution});
  while (const auto rate = bisection.next()) {
    // The start is what the step must reach, not a rounding of it.
    const double tested = step.tests.empty() && needs_start ? std::max(*rate, start) : *rate;
    OCTAVO_TRY(const bool is_sustained, test_rate(tested, step));
    bisection.record(tested, is_sustained);
    step.sustained = bisection.sustained();
    step.failed = bisection.failed();
    if (needs_start && step.sustained <= 0) break;
  }
  return {};
}

Result<bool> Tuner::test_rate(double rate, TuneStep& step) {
  const auto num_prompts = int64_t(std::clamp(std::round(rate * plan_.run_seconds),
                                              double(plan_.least_prompts), double(kMostPrompts)));
  const int64_t needed = plan_.num_repeats / 2 + 1;
  step.tests.push_back({rate, false, {}});
  RateTest& test = step.tests.back();
  int64_t num_good = 0;
  int64_t num_bad = 0;
  while (num_good < needed && num_bad < needed && num_good + num_bad < plan_.num_repeats) {
    OCTAVO_TRY(TuneRun run, target_.run(rate, num_prompts));
    (run.is_good ? num_good : num_bad) += 1;
    test.runs.push_back(std::move(run));
  }
  test.is_sustained = num_good >= needed;
  say_(describe(test));
  return test.is_sustained;
}

}  // namespace octavo::bench
