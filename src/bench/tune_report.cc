#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/command_flags.h"
#include "bench/shell_words.h"
#include "bench/tune.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string join_flags(const ServerFlags& flags) {
  std::vector<std::string> words;
  for (const auto& [name, value] : flags) {
    words.push_back("--" + name);
    words.push_back(value);
  }
  return join_shell_words(words);
}

std::vector<std::string> with_flags(std::vector<std::string> words, const ServerFlags& flags) {
  for (const auto& [name, value] : flags) set_parameter(words, name, value);
  return words;
}

/// Why the lowest rate that failed did.
std::string reason_of(const TuneStep& step) {
  for (const RateTest& test : step.tests) {
    if (test.rate != step.failed) continue;
    for (const TuneRun& run : test.runs) {
      if (!run.is_good) return run.reason;
    }
  }
  return "";
}

std::string describe_step(const TuneStep& step) {
  std::string out =
      fmt::format("  {:<36}", step.knob.empty() ? "the command as it is"
                                                : fmt::format("--{} {}", step.knob, step.value));
  out += step.sustained > 0 ? fmt::format("{:g} req/s sustained", step.sustained)
                            : std::string("no tested rate sustained");
  if (std::isfinite(step.failed)) {
    out += fmt::format(", {:g} not ({})", step.failed, reason_of(step));
  }
  if (!step.note.empty()) out += "; ended: " + step.note.substr(0, step.note.find('\n'));
  if (!step.knob.empty()) out += step.is_kept ? " -> kept" : " -> not kept";
  return out + "\n";
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json run_json(const TuneRun& run, std::span<const Goal> goals) {
  Json values = Json::object();
  for (size_t i = 0; i < goals.size() && i < run.values_ms.size(); ++i) {
    values[goals[i].name] = number_or_null(run.values_ms[i]);
  }
  return {{"is_good", run.is_good},
          {"values", std::move(values)},
          {"reason", run.reason},
          {"request_throughput", run.request_throughput},
          {"result_file", run.result_file}};
}

Json flags_json(const ServerFlags& flags) {
  Json out = Json::object();
  for (const auto& [name, value] : flags) out[name] = value;
  return out;
}

Json step_json(const TuneStep& step, std::span<const Goal> goals) {
  Json tests = Json::array();
  for (const RateTest& test : step.tests) {
    Json runs = Json::array();
    for (const TuneRun& run : test.runs) runs.push_back(run_json(run, goals));
    tests.push_back({{"request_rate", std::isfinite(test.rate) ? Json(test.rate) : Json("inf")},
                     {"is_sustained", test.is_sustained},
                     {"runs", std::move(runs)}});
  }
  return {{"knob", step.knob},
          {"value", step.value},
          {"value_before", step.value_before},
          {"flags", flags_json(step.flags)},
          {"sustained_rate", step.sustained},
          {"failed_rate", number_or_null(step.failed)},
          {"is_kept", step.is_kept},
          {"note", step.note},
          {"tests", std::move(tests)}};
}

/// How to take each kept flag back, and what it brought.
std::string describe_rollback(const TuneResult& result,
                              const std::vector<std::string>& serve_words) {
  std::string out =
      "Rollback: start the command as it was:\n  " + join_shell_words(serve_words) + "\n";
  for (const auto& flag : result.chosen) {
    const auto step = std::ranges::find_if(result.steps, [&](const TuneStep& candidate) {
      return candidate.is_kept && candidate.knob == flag.first && candidate.value == flag.second;
    });
    if (step == result.steps.end()) continue;
    const std::string before = find_flag(serve_words, flag.first);
    out += fmt::format("  one flag: {} --{}{}\n", before.empty() ? "leave out" : "put back",
                       flag.first,
                       !before.empty()              ? " " + before
                       : step->value_before.empty() ? std::string()
                                                    : ", then it is " + step->value_before);
  }
  return out;
}

}  // namespace

std::string format_tune(const TuneResult& result, std::span<const Goal> goals,
                        const std::vector<std::string>& serve_words) {
  std::string out = "\nEvidence:\n";
  for (const TuneStep& step : result.steps) out += describe_step(step);
  out += "\n";
  if (!result.cut_short.empty()) {
    out += fmt::format("Not everything was tried: {}. What follows is what was found so far.\n",
                       result.cut_short);
  }
  std::string wanted;
  for (const Goal& goal : goals) wanted += fmt::format(" {} <= {:g}", goal.name, goal.limit_ms);
  if (result.rate <= 0) {
    return out + fmt::format("No tested rate keeps the goals:{}\n", wanted);
  }
  out += fmt::format("Highest sustained rate: {:g} req/s with{}\n", result.rate, wanted);
  if (result.chosen.empty()) {
    return out + "Chosen flags: none; nothing that was tried beats the command as it is.\n";
  }
  if (result.baseline_rate > 0) {
    out += fmt::format("  the command as it is: {:g} req/s ({:+.0f} %)\n", result.baseline_rate,
                       100 * (result.rate / result.baseline_rate - 1));
  }
  out += fmt::format("Chosen flags: {}\n  {}\n", join_flags(result.chosen),
                     join_shell_words(with_flags(serve_words, result.chosen)));
  const auto is_dtype = [](const auto& flag) { return flag.first == "kv-cache-dtype"; };
  if (std::ranges::any_of(result.chosen, is_dtype)) {
    out += "  Another KV dtype changes answers: measure quality before it serves.\n";
  }
  return out + describe_rollback(result, serve_words);
}

nlohmann::ordered_json tune_json(const TuneResult& result, std::span<const Goal> goals,
                                 const std::vector<std::string>& serve_words) {
  Json goal_list = Json::object();
  for (const Goal& goal : goals) goal_list[goal.name] = goal.limit_ms;
  Json steps = Json::array();
  for (const TuneStep& step : result.steps) steps.push_back(step_json(step, goals));
  return {{"format", "octavo-tune/1"},
          {"goals", std::move(goal_list)},
          {"serve_cmd", join_shell_words(serve_words)},
          {"chosen_flags", flags_json(result.chosen)},
          {"chosen_cmd", join_shell_words(with_flags(serve_words, result.chosen))},
          {"rollback_cmd", join_shell_words(serve_words)},
          {"baseline_rate", result.baseline_rate},
          {"sustained_rate", result.rate},
          {"cut_short", result.cut_short.empty() ? Json() : Json(result.cut_short)},
          {"steps", std::move(steps)}};
}

}  // namespace octavo::bench
