#include "bench/compare_conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "bench/record_fields.h"

namespace octavo::bench {
namespace {

/// Bounds of a quiet machine. Beyond them a run is compared, with a warning.
constexpr double kMaxStealShare = 0.02;      // of all CPU time
constexpr double kMaxLoadPerCpu = 0.5;       // before the run; not in a session, whose runs follow
constexpr double kMaxFrequencyChange = 0.1;  // of the mean over the CPUs
constexpr double kMaxClientShare = 0.8;      // of one core

constexpr size_t kMaxShownValues = 4;

bool is_named_by_any(std::string_view field, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& name) { return is_named(field, name); });
}

/// "block_size" is declared by "block-size" and by "cache.block_size".
bool is_cause_declared(const FieldRule& rule, const std::vector<std::string>& variables) {
  std::string_view rest = rule.causes;
  while (!rest.empty()) {
    const std::string_view cause = rest.substr(0, rest.find(' '));
    if (std::ranges::any_of(variables, [&](const auto& name) { return is_named(name, cause); })) {
      return true;
    }
    rest.remove_prefix(std::min(cause.size() + 1, rest.size()));
  }
  return false;
}

/// The host of a URL that is a JSON text, all spellings of this machine as one.
std::string host_of(std::string_view url) {
  const size_t begin = url.find("://");
  std::string_view host = begin == std::string_view::npos ? url : url.substr(begin + 3);
  const bool is_bracketed = host.starts_with('[');
  host = host.substr(0, is_bracketed ? host.find(']') + 1 : host.find_first_of(":/\""));
  if (host == "localhost" || host == "[::1]" || host.starts_with("127.")) return "this machine";
  return std::string(host);
}

/// In a session every round may send prompts of its own, if all sides send them.
bool may_change_by_round(std::string_view field) {
  return field == "dataset.seed" || field == "dataset.prompts_sha256";
}

/// The fields of a run, and the host of its server as one more.
std::map<std::string, std::string> fields_of(const SavedRun& run) {
  std::map<std::string, std::string> fields = run.fields;
  const auto url = fields.find("server.url");
  if (url != fields.end()) fields["server.host"] = host_of(url->second);
  return fields;
}

/// The values of all rounds as one.
std::string by_round(const RunSet& side, const std::string& field) {
  std::string out;
  for (const SavedRun& run : side.runs) {
    const auto found = run.fields.find(field);
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", run.session.round,
                       found == run.fields.end() ? "(none)" : found->second);
  }
  return out;
}

/// The distinct values of a field in the runs of a side; "" stands for none.
using Values = std::vector<std::string>;

/// Whether all runs agree; with `is_if_known` those that do not know do not count.
bool agree(const std::vector<Values>& sides, bool is_if_known) {
  std::set<std::string> all;
  for (const Values& values : sides) all.insert(values.begin(), values.end());
  if (is_if_known) all.erase("");
  return all.size() <= 1;
}

std::string joined(const Values& values) {
  std::string out;
  for (size_t i = 0; i < values.size() && i < kMaxShownValues; ++i) {
    out += fmt::format("{}{}", i == 0 ? "" : " | ", values[i].empty() ? "(none)" : values[i]);
  }
  if (values.size() > kMaxShownValues) out += " | ...";
  return values.size() == 1 && values[0].empty() ? "" : out;
}

/// A field is declared by name, or follows from a name that is. Where a side does not agree with
/// itself nothing helps: its runs are not repetitions.
void sort_difference(const std::string& field, const std::vector<Values>& values,
                     Comparison& comparison) {
  const FieldRule& rule = rule_of(field);
  if (rule.role != FieldRole::kCondition && rule.role != FieldRole::kIfKnown &&
      rule.role != FieldRole::kFollows) {
    return;
  }
  if (agree(values, rule.role == FieldRole::kIfKnown)) return;
  Difference difference{field, {}};
  for (const Values& side : values) difference.values.push_back(joined(side));
  const std::vector<std::string>& variables = comparison.options.variables;
  const auto agrees_with_itself = [&](const Values& side) {
    return agree({side}, rule.role == FieldRole::kIfKnown);
  };
  std::vector<Difference>* kind = &comparison.undeclared;
  if (std::ranges::all_of(values, agrees_with_itself)) {
    if (is_named_by_any(field, variables)) {
      kind = &comparison.declared;
    } else if (rule.role == FieldRole::kFollows && is_cause_declared(rule, variables)) {
      kind = &comparison.following;
    }
  }
  kind->push_back(std::move(difference));
}

void warn(Comparison& comparison, std::string text) {
  comparison.warnings.push_back(std::move(text));
}

void warn_of_noise(const std::string& side, const SavedRun& run, Comparison& comparison) {
  const auto steal = run.number("noise.steal_share");
  if (steal && *steal > kMaxStealShare) {
    warn(comparison, fmt::format("{}: {}: {:.1f} % of the CPU time was stolen (bound {:.0f} %)",
                                 side, run.name, *steal * 100, kMaxStealShare * 100));
  }
  const auto load = run.number("noise.load1_before");
  const auto cpus = run.number("server.machine.num_cpus");
  if (run.session.id.empty() && load && cpus && *cpus > 0 && *load > kMaxLoadPerCpu * *cpus) {
    warn(comparison, fmt::format("{}: {}: the machine was busy before the run: load {:.2f} on {} "
                                 "CPUs (bound {} per CPU)",
                                 side, run.name, *load, *cpus, kMaxLoadPerCpu));
  }
  const auto before = run.number("noise.mhz_before");
  const auto after = run.number("noise.mhz_after");
  if (before && after && *before > 0 &&
      std::abs(*after - *before) > kMaxFrequencyChange * *before) {
    warn(comparison, fmt::format("{}: {}: the CPUs went from {:.0f} to {:.0f} MHz (bound {:.0f} %)",
                                 side, run.name, *before, *after, kMaxFrequencyChange * 100));
  }
  const auto share = run.number("client.cpu_share");
  if (share && *share > kMaxClientShare) {
    warn(comparison,
         fmt::format("{}: {}: the client used {:.0f} % of a core (bound {:.0f} %); the latencies "
                     "hold its own queueing",
                     side, run.name, *share * 100, kMaxClientShare * 100));
  }
}

void warn_of_cache(std::span<const RunSet> sides, Comparison& comparison) {
  std::set<std::string> states;
  std::string list;
  for (size_t i = 0; i < sides.size(); ++i) {
    list += fmt::format("{}{}:", i == 0 ? "" : "; ", comparison.sides[i].name);
    for (const SavedRun& run : sides[i].runs) {
      const auto found = run.fields.find("prefix_cache.state");
      const std::string state = found == run.fields.end() ? "unknown" : found->second;
      states.insert(state);
      list += ' ' + state;
    }
  }
  if (states.size() < 2) return;
  warn(comparison, "the prefix cache was not in the same state when the runs began: " + list);
}

}  // namespace

Status compare_conditions(std::span<const RunSet> sides, Comparison& comparison) {
  std::map<std::string, std::vector<std::set<std::string>>> seen;
  std::vector<std::vector<std::map<std::string, std::string>>> runs(sides.size());
  for (size_t i = 0; i < sides.size(); ++i) {
    for (const SavedRun& run : sides[i].runs) {
      runs[i].push_back(fields_of(run));
      for (const auto& [field, value] : runs[i].back()) {
        auto& of_field = seen.try_emplace(field, sides.size()).first->second;
        of_field[i].insert(value);
      }
    }
  }
  for (const std::string& variable : comparison.options.variables) {
    const bool is_known = std::ranges::any_of(
        seen, [&](const auto& entry) { return is_named(entry.first, variable); });
    if (!is_known) {
      return Error{Code::kInvalidArgument,
                   fmt::format("--variable {}: no field of these records has that name", variable)};
    }
  }
  for (auto& [field, of_sides] : seen) {
    std::vector<Values> values;
    for (size_t i = 0; i < sides.size(); ++i) {
      const bool is_everywhere = std::ranges::all_of(
          runs[i], [&, &name = field](const auto& fields) { return fields.contains(name); });
      if (!is_everywhere) of_sides[i].insert("");
      values.emplace_back(of_sides[i].begin(), of_sides[i].end());
      if (comparison.is_one_session && may_change_by_round(field)) {
        values.back() = {by_round(sides[i], field)};
      }
    }
    sort_difference(field, values, comparison);
  }
  return {};
}

void warn_of_states(std::span<const RunSet> sides, Comparison& comparison) {
  for (size_t i = 0; i < sides.size(); ++i) {
    const Side& side = comparison.sides[i];
    if (side.num_failed > 0) {
      warn(comparison,
           fmt::format("{}: {} of {} requests failed; their time is in no latency and their tokens "
                       "in no throughput",
                       side.name, side.num_failed, side.num_failed + side.num_completed));
    }
    for (const SavedRun& run : sides[i].runs) warn_of_noise(side.name, run, comparison);
  }
  warn_of_cache(sides, comparison);
  for (const std::string& variable : comparison.options.variables) {
    const bool differs = std::ranges::any_of(
        comparison.declared, [&](const Difference& d) { return is_named(d.field, variable); });
    if (!differs) warn(comparison, fmt::format("the variable '{}' does not differ", variable));
  }
}

}  // namespace octavo::bench
