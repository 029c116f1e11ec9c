#include "bench/tuner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "bench/goal.h"
#include "bench/rate_bisection.h"
#include "bench/tune.h"
#include "bench/tune_target.h"
#include "config/parse_serve.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;

/// Drives a bisection against a server that sustains `capacity`; the number of rates tried.
int bisect(RateBisection& bisection, double capacity) {
  int count = 0;
  while (const auto rate = bisection.next()) {
    bisection.record(*rate, *rate <= capacity);
    if (++count > 100) break;
  }
  return count;
}

TEST(RateBisection, BracketsAnyCapacityFromAnyStart) {
  SplitMix64 random(3);
  for (int round = 0; round < 2000; ++round) {
    const double capacity = std::exp(random.uniform() * 12 - 4);
    RateBisection bisection({std::exp(random.uniform() * 12 - 4), 0.01, 1e5, 0.1});
    EXPECT_LE(bisect(bisection, capacity), 30);
    EXPECT_LE(bisection.sustained(), capacity);
    EXPECT_GT(bisection.failed(), capacity);
    EXPECT_LE(bisection.failed() / bisection.sustained(), 1.1 + 1e-9);
  }
}

TEST(RateBisection, StopsAtItsLimits) {
  RateBisection none({8, 1, 100, 0.1});
  EXPECT_EQ(bisect(none, 0), 4);  // 8, 4, 2, 1
  EXPECT_EQ(none.sustained(), 0);
  EXPECT_EQ(none.failed(), 1);
  RateBisection all({8, 1, 100, 0.1});
  EXPECT_EQ(bisect(all, 1e9), 5);  // 8, 16, 32, 64, 100
  EXPECT_EQ(all.sustained(), 100);
  EXPECT_TRUE(std::isinf(all.failed()));
}

TEST(RateBisection, ContradictionsEnd) {
  SplitMix64 random(4);
  for (int round = 0; round < 500; ++round) {
    RateBisection bisection({10, 0.1, 1000, 0.05});
    int count = 0;
    while (const auto rate = bisection.next()) {
      ASSERT_LT(++count, 200);
      bisection.record(*rate, random.below(2) == 0);
    }
  }
}

TEST(Goal, ReadsNamesAndLimits) {
  const Goal goal = parse_goal("ttft_p99.9_ms=500").value();
  EXPECT_EQ(goal.key, "p99.9_ttft_ms");
  EXPECT_EQ(goal.percentile, "99.9");
  EXPECT_EQ(goal.limit_ms, 500);
  EXPECT_EQ(parse_goal("itl_mean_ms=2.5")->key, "mean_itl_ms");
  EXPECT_EQ(parse_goal("e2el_median_ms=1")->percentile, "");
  for (const char* bad : {"", "ttft", "ttft_p99_ms", "ttft_p99_ms=", "ttft_p99_ms=x",
                          "ttft_p99_ms=0", "ttft_p99_ms=inf", "ttft_p99=1", "ttft_ms=1",
                          "x_p99_ms=1", "ttft_p101_ms=1", "ttft_p-1_ms=1", "ttft_q_ms=1", "=1"}) {
    EXPECT_FALSE(parse_goal(bad).ok()) << bad;
  }
}

TEST(Goal, AGoodRunKeepsEveryGoalWithoutFailures) {
  const std::vector<Goal> goals{parse_goal("ttft_p99_ms=10").value(),
                                parse_goal("itl_mean_ms=2").value()};
  const Json good{{"completed", 5}, {"failed", 0}, {"p99_ttft_ms", 10.0}, {"mean_itl_ms", 1.5}};
  EXPECT_TRUE(judge_run(good, goals).is_good);
  EXPECT_EQ(judge_run(good, goals).values_ms, (std::vector<double>{10.0, 1.5}));
  const auto reason = [&](const char* key, Json value) {
    Json bad = good;
    bad[key] = std::move(value);
    const RunVerdict verdict = judge_run(bad, goals);
    EXPECT_EQ(verdict.is_good, verdict.reason.empty());
    return verdict.reason;
  };
  EXPECT_EQ(reason("p99_ttft_ms", 10.5), "ttft_p99_ms 10.5 > 10");
  EXPECT_EQ(reason("mean_itl_ms", nullptr), "no mean_itl_ms in the result");
  EXPECT_EQ(reason("failed", 2), "2 requests failed");
  EXPECT_EQ(reason("completed", 0), "no request was answered");
  Json burst = good;
  for (int i = 0; i < 32; ++i) {
    burst["start_times"].push_back(i * 1e-4);
    burst["latencies"].push_back(1.0 + i);
  }
  EXPECT_EQ(judge_run(burst, goals).reason, "the backlog grows");
  burst["request_rate"] = "inf";
  EXPECT_TRUE(judge_run(burst, goals).is_good);
  EXPECT_FALSE(judge_run(Json::array(), goals).is_good);
  EXPECT_FALSE(judge_run(Json(), goals).is_good);
}

/// Requests every 1/rate s to `servers` that take a second each, one after the other.
bool falls_behind(double rate, int servers, int count) {
  std::vector<double> starts, ends, free(size_t(servers), 0.0);
  for (int i = 0; i < count; ++i) {
    starts.push_back(i / rate);
    double& next = *std::min_element(free.begin(), free.end());
    next = std::max(next, starts.back()) + 1;
    ends.push_back(next);
  }
  return backlog_grows(starts, ends);
}

TEST(Goal, ABacklogThatGrowsIsSeen) {
  EXPECT_FALSE(falls_behind(9, 10, 200));
  EXPECT_FALSE(falls_behind(1, 10, 50));
  EXPECT_TRUE(falls_behind(20, 10, 200));
  EXPECT_TRUE(falls_behind(15, 10, 400));
  EXPECT_FALSE(backlog_grows({}, {}));
  const std::vector<double> same(20, 1.0), later(20, 5.0);
  EXPECT_FALSE(backlog_grows(same, later));  // all at once
}

/// A server whose capacity depends on its flags.
class FakeTarget final : public TuneTarget {
 public:
  Status start(const ServerFlags& flags) override {
    ++num_starts;
    flags_.clear();
    for (const auto& [name, value] : flags) flags_[name] = value;
    if (flags_.contains("broken")) return Error{Code::kUnavailable, "it does not start"};
    return {};
  }
  std::optional<std::string> value_in_use(const std::string& flag) override {
    if (flag == "performance-mode") return "balanced";
    if (flag != "max-num-seqs" || flags_.contains("broken")) return std::nullopt;
    return flags_.contains(flag) ? flags_[flag] : "8";
  }
  Result<TuneRun> run(double rate, int64_t num_prompts) override {
    if (--runs_left < 0) return Error{Code::kCancelled, "time is up"};
    EXPECT_GE(num_prompts, 30);
    TuneRun out;
    out.rate = rate;
    out.request_throughput = std::min(rate, 2 * capacity());
    out.is_good = rate <= capacity();
    out.values_ms = {out.is_good ? 1.0 : 99.0};
    out.reason = out.is_good ? "" : "late";
    return out;
  }
  /// 10 at 8 sequences; best at 32; fp8 adds a fifth.
  double capacity() {
    const double seqs = std::stod(value_in_use("max-num-seqs").value());
    const double factor = seqs <= 32 ? std::sqrt(seqs / 8) : 0.5;
    return 10 * factor * (flags_["kv-cache-dtype"] == "fp8" ? 1.2 : 1);
  }
  int runs_left = 1000;
  int num_starts = 0;

 private:
  std::map<std::string, std::string> flags_;
};

TuneResult tune(FakeTarget& target, std::vector<Knob> knobs) {
  TunePlan plan;
  plan.knobs = std::move(knobs);
  return Tuner(plan, target, [](const std::string&) {}).run().value();
}

TEST(Tuner, KeepsWhatHelpsOneKnobAtATime) {
  FakeTarget target;
  const TuneResult result = tune(target, {{"max-num-seqs", {}},
                                          {"broken", {"1"}},
                                          {"useless", {"a", "b"}},
                                          {"kv-cache-dtype", {"fp8"}}});
  EXPECT_GE(result.baseline_rate, 10 / 1.1);
  EXPECT_LE(result.baseline_rate, 10);
  EXPECT_EQ(result.chosen, (ServerFlags{{"max-num-seqs", "32"}, {"kv-cache-dtype", "fp8"}}));
  EXPECT_GE(result.rate, 24 / 1.1);
  EXPECT_LE(result.rate, 24);
  EXPECT_EQ(result.cut_short, "");
  std::vector<std::string> tried;
  for (const TuneStep& step : result.steps) tried.push_back(step.knob + step.value);
  // 64 is worse, so nothing further is tried, and nothing below 8.
  EXPECT_EQ(tried,
            (std::vector<std::string>{"", "max-num-seqs16", "max-num-seqs32", "max-num-seqs64",
                                      "broken1", "uselessa", "uselessb", "kv-cache-dtypefp8"}));
  EXPECT_EQ(result.steps[4].note, "it does not start");
  EXPECT_EQ(target.num_starts, 8);
  // What is kept sustains what the flags before it did not.
  EXPECT_GE(result.steps[1].sustained, result.steps[0].failed);
  EXPECT_GE(result.steps[2].sustained, result.steps[1].failed);
  // A step keeps the flags of those before it.
  EXPECT_EQ(result.steps.back().flags.front().first, "max-num-seqs");
}

TEST(Tuner, AFlagWithoutEffectIsNeverKept) {
  // Whatever the resolution leaves open above the rate that was found.
  for (const double resolution : {0.01, 0.1, 0.5, 2.0}) {
    FakeTarget target;
    TunePlan plan;
    plan.resolution = resolution;
    plan.least_gain = 0.001;
    plan.knobs = {{"useless", {"a", "b", "c"}}};
    const TuneResult result = Tuner(plan, target, [](const std::string&) {}).run().value();
    EXPECT_TRUE(result.chosen.empty()) << resolution;
  }
}

TEST(Tuner, ValuesInUseAreThoseOfTheChosenFlags) {
  FakeTarget target;
  // The last server tried did not start, the one before had another value: neither counts.
  const TuneResult result =
      tune(target, {{"max-num-seqs", {"64"}}, {"broken", {"1"}}, {"max-num-seqs", {}}});
  std::vector<std::string> tried;
  for (const TuneStep& step : result.steps) tried.push_back(step.value_before + ">" + step.value);
  EXPECT_EQ(tried, (std::vector<std::string>{">", "8>64", ">1", "8>16", "8>32", "8>64"}));
}

TEST(Tuner, EveryModeThatIsNotInUseIsTried) {
  FakeTarget target;
  std::vector<std::string> tried;
  for (const Knob& knob : default_knobs()) {
    for (const std::string& value : knob.values) {
      const std::vector<std::string> words{"model", "--" + knob.name, value};
      EXPECT_TRUE(config::parse_serve(words, [](auto) { return std::nullopt; }).ok()) << value;
    }
    if (knob.name != "performance-mode") continue;
    const TuneResult result = tune(target, {knob});
    for (const TuneStep& step : result.steps) tried.push_back(step.value);
  }
  EXPECT_EQ(tried, (std::vector<std::string>{"", "throughput", "interactivity"}));
}

TEST(Tuner, AMajorityDecidesAndEndsARate) {
  FakeTarget target;
  const TuneResult result = tune(target, {});
  for (const RateTest& test : result.steps[0].tests) {
    if (std::isfinite(test.rate)) {
      EXPECT_EQ(test.runs.size(), 2u);
    }
  }
}

TEST(Tuner, WhatWasFoundIsLeftWhenTimeIsUp) {
  for (const int runs : {1, 3, 5, 9, 14, 20}) {
    FakeTarget target;
    target.runs_left = runs;
    const TuneResult result = tune(target, {{"max-num-seqs", {}}});
    EXPECT_EQ(result.cut_short, "time is up") << runs;
    EXPECT_LE(result.baseline_rate, 10);
    EXPECT_LE(result.rate, 20);
    EXPECT_GE(result.rate, result.baseline_rate);
  }
}

TEST(Tuner, ReportsFlagsEvidenceAndRollback) {
  FakeTarget target;
  const TuneResult result = tune(target, {{"kv-cache-dtype", {"fp8"}}});
  const std::vector<Goal> goals{parse_goal("ttft_p99_ms=10").value()};
  const std::vector<std::string> words{"octavo", "serve", "--kv-cache-dtype", "auto"};
  const std::string text = format_tune(result, goals, words);
  EXPECT_NE(text.find("octavo serve --kv-cache-dtype fp8\n"), std::string::npos) << text;
  EXPECT_NE(text.find("measure quality"), std::string::npos);
  EXPECT_NE(text.find("Rollback: start the command as it was:\n  octavo serve --kv-cache-dtype "
                      "auto\n  one flag: put back --kv-cache-dtype auto\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("not (late)"), std::string::npos);
  const Json json = tune_json(result, goals, words);
  EXPECT_EQ(json["chosen_flags"], (Json{{"kv-cache-dtype", "fp8"}}));
  EXPECT_EQ(json["steps"].size(), 2u);
  EXPECT_EQ(json["steps"][0]["tests"][0]["request_rate"], "inf");
  EXPECT_EQ(json["steps"][0]["tests"][1]["runs"][0]["values"]["ttft_p99_ms"], 99.0);  // 16 req/s
  EXPECT_NE(format_tune({{}, {}, 0, 0, ""}, goals, words).find("No tested rate keeps the goals"),
            std::string::npos);
}

TEST(Tune, KnobsAndServerCommands) {
  EXPECT_EQ(parse_knob("--max_num_seqs=1,2,,3")->values, (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_EQ(parse_knob("--max_num_seqs")->name, "max-num-seqs");
  EXPECT_EQ(parse_knob("kv-cache-dtype")->values, (std::vector<std::string>{"fp8"}));
  for (const char* bad : {"", "=1", "port=1", "--host=1", "unknown", "unknown="}) {
    EXPECT_FALSE(parse_knob(bad).ok()) << bad;
  }
  EXPECT_EQ(serve_command({"s", "--port", "1", "--host=0.0.0.0"}, 77, {{"x", "y"}}),
            (std::vector<std::string>{"s", "--port", "77", "--host", "127.0.0.1", "--x", "y"}));
}

}  // namespace
}  // namespace octavo::bench
