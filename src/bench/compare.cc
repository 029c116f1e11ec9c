#include "bench/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "bench/compare_conditions.h"

namespace octavo::bench {
namespace {

constexpr size_t kMaxSides = 8;
// Two runs a side lie apart by chance in one of three cases, three in one of ten; of paired rounds
// it takes five until all point one way in fewer than one of ten. Below that there is no verdict.
constexpr size_t kMinRuns = 3;
constexpr size_t kMinRounds = 5;

struct Throughput {
  std::string_view key;
  std::string_view title;
};
constexpr auto kThroughputs = std::to_array<Throughput>({
    {"request_throughput", "Requests/s"},
    {"request_goodput", "Good requests/s"},
    {"output_throughput", "Output tokens/s"},
    {"total_token_throughput", "All tokens/s"},
    {"input_sequence_throughput", "Inputs/s"},
});

struct Latency {
  std::string_view key;
  std::string_view title;
};
constexpr auto kLatencies = std::to_array<Latency>({
    {"ttft", "TTFT"},
    {"tpot", "TPOT"},
    {"itl", "ITL"},
    {"e2el", "E2EL"},
    {"client_queue_time", "Client queue time"},
    {"e2el_including_client_queue", "E2EL incl. client queue"},
});

MetricRow row_of(std::string key, std::string title, bool is_higher_better) {
  MetricRow row;
  row.key = std::move(key);
  row.title = std::move(title);
  row.is_higher_better = is_higher_better;
  return row;
}

/// Mean, median and percentiles of a latency that any run has, in this order. "std_" is no figure
/// that is better or worse.
std::vector<MetricRow> latency_rows(const std::set<std::string>& keys, const Latency& latency) {
  std::vector<MetricRow> out;
  const std::string suffix = fmt::format("_{}_ms", latency.key);
  for (const char* kind : {"mean", "median", "p"}) {
    for (const std::string& key : keys) {
      if (!key.ends_with(suffix) || !key.starts_with(kind)) continue;
      std::string word = key.substr(0, key.size() - suffix.size());
      const bool is_percentile = word.size() > 1 && word[0] == 'p' &&
                                 word.find_first_not_of("0123456789.", 1) == std::string::npos;
      if (word != kind && !is_percentile) continue;
      word[0] = char(word[0] - 'a' + 'A');
      out.push_back(row_of(key, fmt::format("{} {}, ms", word, latency.title), false));
    }
  }
  return out;
}

std::vector<MetricRow> rows_to_fill(std::span<const RunSet> sides) {
  constexpr std::string_view kResults = "results.";
  std::set<std::string> keys;
  for (const RunSet& side : sides) {
    for (const SavedRun& run : side.runs) {
      for (const auto& [field, value] : run.numbers) {
        if (field.starts_with(kResults)) keys.insert(field.substr(kResults.size()));
      }
    }
  }
  std::vector<MetricRow> out;
  for (const Throughput& row : kThroughputs) {
    if (!keys.contains(std::string(row.key))) continue;
    out.push_back(row_of(std::string(row.key), std::string(row.title), true));
  }
  for (const Latency& latency : kLatencies) {
    for (MetricRow& row : latency_rows(keys, latency)) out.push_back(std::move(row));
  }
  return out;
}

/// The figure of every run, or the name of a run without it.
Result<Spread> spread_of(const RunSet& side, const std::string& key) {
  Spread out;
  for (const SavedRun& run : side.runs) {
    const auto value = run.number("results." + key);
    if (!value) return Error{Code::kNotFound, run.name};
    out.values.push_back(*value);
  }
  out.median = median(out.values);
  const auto [low, high] = std::ranges::minmax(out.values);
  out.min = low;
  out.max = high;
  return out;
}

/// Whether every side has the same rounds of one session, once each. Puts them in order.
bool is_one_session(std::vector<RunSet>& sides) {
  std::set<std::string> sessions;
  std::set<std::vector<int64_t>> rounds;
  for (RunSet& side : sides) {
    for (const SavedRun& run : side.runs) sessions.insert(run.session.id);
    if (sessions.size() != 1 || sessions.contains("")) return false;
    std::ranges::sort(side.runs, {}, [](const SavedRun& run) { return run.session.round; });
    std::vector<int64_t> of_side;
    for (const SavedRun& run : side.runs) of_side.push_back(run.session.round);
    if (std::ranges::adjacent_find(of_side) != of_side.end()) return false;
    rounds.insert(std::move(of_side));
  }
  return rounds.size() == 1;
}

std::string too_few(const Spread& a, const Spread& b) {
  if (a.values.size() == 1 && b.values.size() == 1) return "one run each";
  if (a.values.size() == 1 || b.values.size() == 1) return "one run of a side";
  return fmt::format("fewer than {} runs of a side", kMinRuns);
}

Verdict judge(const RatioInterval& interval, bool is_higher_better, double min_effect) {
  if (interval.low > 1 + min_effect) {
    return is_higher_better ? Verdict::kBetter : Verdict::kWorse;
  }
  if (interval.high < 1 - min_effect) {
    return is_higher_better ? Verdict::kWorse : Verdict::kBetter;
  }
  return Verdict::kNotDistinguishable;
}

Contrast contrast_of(const MetricRow& row, const Spread& a, const Spread& b,
                     const Comparison& comparison) {
  Contrast out;
  if (a.min <= 0 || b.min <= 0) {
    out.note = "a value is 0";
    return out;
  }
  out.ratio = b.median / a.median;
  if (std::min(a.values.size(), b.values.size()) < kMinRuns) {
    out.note = too_few(a, b);
    return out;
  }
  const CompareOptions& options = comparison.options;
  out.interval = comparison.is_paired ? median_of_ratios(a.values, b.values, options.resample)
                                      : ratio_of_medians(a.values, b.values, options.resample);
  out.ratio = out.interval->ratio;
  out.verdict = judge(*out.interval, row.is_higher_better, options.min_effect);
  return out;
}

void add_rows(std::span<const RunSet> sides, Comparison& comparison) {
  for (MetricRow& row : rows_to_fill(sides)) {
    std::string missing;
    for (const RunSet& side : sides) {
      auto spread = spread_of(side, row.key);
      if (!spread.ok()) {
        missing = spread.error().message;
        break;
      }
      row.sides.push_back(std::move(*spread));
    }
    if (!missing.empty()) {
      comparison.warnings.push_back(fmt::format("{} is left out: {} has none", row.key, missing));
      continue;
    }
    for (size_t i = 1; i < sides.size(); ++i) {
      Contrast contrast = contrast_of(row, row.sides[0], row.sides[i], comparison);
      const bool has_failures =
          comparison.sides[0].num_failed > 0 || comparison.sides[i].num_failed > 0;
      if (has_failures && row.is_higher_better) {
        contrast.note += contrast.note.empty() ? "requests failed" : "; requests failed";
      }
      row.contrasts.push_back(std::move(contrast));
    }
    comparison.rows.push_back(std::move(row));
  }
}

/// Results of pooling do not count failures; the record counts their errors.
int64_t num_failed(const SavedRun& run) {
  if (const auto failed = run.number("results.failed")) return int64_t(*failed);
  double sum = 0;
  for (const auto& [field, count] : run.numbers) {
    if (field.starts_with("errors.") && count > 0) sum += count;
  }
  return int64_t(std::min(sum, 1e15));
}

Side describe_side(const RunSet& runs, size_t index) {
  Side side;
  side.name = std::string(1, char('A' + index));
  side.path = runs.path;
  side.num_runs = runs.runs.size();
  for (const SavedRun& run : runs.runs) {
    side.num_completed += int64_t(run.number("results.completed").value_or(0));
    side.num_failed += num_failed(run);
  }
  return side;
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBetter:
      return "better";
    case Verdict::kWorse:
      return "worse";
    case Verdict::kNotDistinguishable:
      return "not distinguishable";
  }
  return "";
}

Result<Comparison> compare_runs(std::span<const RunSet> sides, const CompareOptions& options) {
  if (sides.size() < 2 || sides.size() > kMaxSides) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{} sides cannot be compared; give 2 to {}", sides.size(), kMaxSides)};
  }
  std::vector<RunSet> ordered(sides.begin(), sides.end());
  Comparison comparison;
  comparison.options = options;
  comparison.is_one_session = is_one_session(ordered);
  comparison.is_paired = comparison.is_one_session && ordered[0].runs.size() >= kMinRounds;
  for (size_t i = 0; i < sides.size(); ++i) {
    comparison.sides.push_back(describe_side(sides[i], i));
  }
  OCTAVO_TRY(compare_conditions(ordered, comparison));
  if (comparison.is_refused()) return comparison;
  warn_of_states(ordered, comparison);
  add_rows(ordered, comparison);
  return comparison;
}

}  // namespace octavo::bench
