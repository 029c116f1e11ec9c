#include "bench/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/compare_page.h"
#include "bench/record_fields.h"
#include "bench/test_records.h"

namespace octavo::bench {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

RunSet side(const std::string& name, const std::vector<Json>& records) {
  RunFolder folder;
  for (size_t i = 0; i < records.size(); ++i) {
    folder.write_run(fmt::format("{}-{}", name, i), records[i]);
  }
  auto loaded = load_runs(folder.path());
  EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message);
  return std::move(*loaded);
}

/// Runs whose throughput is `values` and whose TTFT is their inverse.
RunSet runs_at(const std::vector<double>& values, const Json& patch = Json::object()) {
  std::vector<Json> records;
  for (const double value : values) {
    Json record = make_record(value, 1000 / value);
    record.merge_patch(patch);
    records.push_back(std::move(record));
  }
  return side("r", records);
}

Comparison compared(const std::vector<RunSet>& sides, CompareOptions options = {}) {
  auto comparison = compare_runs(sides, options);
  EXPECT_TRUE(comparison.ok()) << (comparison.ok() ? "" : comparison.error().message);
  return std::move(*comparison);
}

const MetricRow& row(const Comparison& comparison, const std::string& key) {
  for (const MetricRow& row : comparison.rows) {
    if (row.key == key) return row;
  }
  ADD_FAILURE() << "no row " << key;
  static const MetricRow kNone;
  return kNone;
}

std::vector<std::string> fields_of(const std::vector<Difference>& differences) {
  std::vector<std::string> out;
  for (const Difference& difference : differences) out.push_back(difference.field);
  return out;
}

const std::vector<double> kSlow = {10.0, 10.2, 9.9, 10.1, 10.05};
const std::vector<double> kFast = {12.0, 12.2, 11.9, 12.1, 12.05};

TEST(Compare, FiveRunsThatAreFasterAreBetterInBothDirections) {
  const Comparison c = compared({runs_at(kSlow), runs_at(kFast)});
  EXPECT_FALSE(c.is_refused());
  const MetricRow& throughput = row(c, "output_throughput");
  EXPECT_EQ(throughput.contrasts[0].verdict, Verdict::kBetter);
  EXPECT_DOUBLE_EQ(throughput.sides[0].median, 10.05);
  EXPECT_DOUBLE_EQ(throughput.sides[0].min, 9.9);
  EXPECT_DOUBLE_EQ(throughput.sides[0].max, 10.2);
  EXPECT_DOUBLE_EQ(*throughput.contrasts[0].ratio, 12.05 / 10.05);
  EXPECT_LT(throughput.contrasts[0].interval->low, 12.05 / 10.05);
  EXPECT_GT(throughput.contrasts[0].interval->high, 12.05 / 10.05);
  EXPECT_EQ(row(c, "mean_ttft_ms").contrasts[0].verdict, Verdict::kBetter);
  EXPECT_LT(*row(c, "mean_ttft_ms").contrasts[0].ratio, 1);
}

TEST(Compare, FiveRunsThatAreSlowerAreWorse) {
  const Comparison c = compared({runs_at(kFast), runs_at(kSlow)});
  EXPECT_EQ(row(c, "output_throughput").contrasts[0].verdict, Verdict::kWorse);
  EXPECT_EQ(row(c, "mean_ttft_ms").contrasts[0].verdict, Verdict::kWorse);
}

TEST(Compare, RunsThatOverlapAreNotDistinguishable) {
  const Comparison c =
      compared({runs_at({10, 12, 11, 10.5, 11.5}), runs_at({10.4, 11.8, 11, 10.2, 12})});
  const Contrast& contrast = row(c, "output_throughput").contrasts[0];
  EXPECT_EQ(contrast.verdict, Verdict::kNotDistinguishable);
  EXPECT_TRUE(contrast.interval.has_value());
}

TEST(Compare, ADifferenceBelowTheLeastEffectIsNoVerdict) {
  const std::vector<RunSet> sides = {runs_at({100, 100.01, 100.02, 100, 100.01}),
                                     runs_at({100.5, 100.51, 100.52, 100.5, 100.51})};
  EXPECT_EQ(row(compared(sides), "output_throughput").contrasts[0].verdict,
            Verdict::kNotDistinguishable);
  CompareOptions options;
  options.min_effect = 0.001;
  EXPECT_EQ(row(compared(sides, options), "output_throughput").contrasts[0].verdict,
            Verdict::kBetter);
}

TEST(Compare, OneRunEachIsNeverAVerdict) {
  const Comparison c = compared({runs_at({10}), runs_at({100})});
  for (const MetricRow& row : c.rows) {
    EXPECT_EQ(row.contrasts[0].verdict, Verdict::kNotDistinguishable);
    EXPECT_EQ(row.contrasts[0].note, "one run each");
  }
  EXPECT_DOUBLE_EQ(*row(c, "output_throughput").contrasts[0].ratio, 10);
  EXPECT_EQ(row(compared({runs_at({10}), runs_at(kFast)}), "output_throughput").contrasts[0].note,
            "one run of a side");
  EXPECT_EQ(row(compared({runs_at({10, 10}), runs_at({20, 20})}), "output_throughput")
                .contrasts[0]
                .verdict,
            Verdict::kNotDistinguishable);
}

TEST(Compare, EverySideIsHeldAgainstTheFirst) {
  const Comparison c = compared({runs_at(kSlow), runs_at(kFast), runs_at(kSlow)});
  const MetricRow& throughput = row(c, "output_throughput");
  ASSERT_THAT(throughput.contrasts, SizeIs(2));
  EXPECT_EQ(throughput.contrasts[0].verdict, Verdict::kBetter);
  EXPECT_EQ(throughput.contrasts[1].verdict, Verdict::kNotDistinguishable);
  EXPECT_FALSE(compare_runs(std::vector{runs_at({1})}, {}).ok());
}

TEST(Compare, UndeclaredDifferencesRefuseAndAreAllListed) {
  const Json patch = {{"load", {{"request_rate", 4.0}}},
                      {"dataset", {{"prompts_sha256", "other"}}},
                      {"server", {{"config", {{"scheduler", {{"max_num_seqs", 128}}}}}}}};
  const Comparison c = compared({runs_at(kSlow), runs_at(kFast, patch)});
  EXPECT_TRUE(c.is_refused());
  EXPECT_THAT(c.rows, IsEmpty());
  EXPECT_THAT(fields_of(c.undeclared), ElementsAre("dataset.prompts_sha256", "load.request_rate",
                                                   "server.config.scheduler.max_num_seqs"));
  EXPECT_THAT(c.undeclared[2].values, ElementsAre("64", "128"));
  const std::string page = comparison_page(c);
  EXPECT_THAT(page, HasSubstr("| server.config.scheduler.max\\_num\\_seqs | 64 | 128 |"));
  EXPECT_THAT(page, HasSubstr("Not compared"));
  EXPECT_THAT(page, Not(HasSubstr("better")));
}

TEST(Compare, ADeclaredVariableMayDiffer) {
  const Json patch = {{"server",
                       {{"config",
                         {{"scheduler", {{"max_num_seqs", 128}}},
                          {"non_default_args", {{"max_num_seqs", "128"}}}}}}}};
  CompareOptions options;
  options.variables = {"max-num-seqs"};
  const Comparison c = compared({runs_at(kSlow), runs_at(kFast, patch)}, options);
  EXPECT_FALSE(c.is_refused());
  EXPECT_THAT(fields_of(c.declared), ElementsAre("server.config.non_default_args.max_num_seqs",
                                                 "server.config.scheduler.max_num_seqs"));
  EXPECT_THAT(c.declared[0].values, ElementsAre("", "\"128\""));
  EXPECT_THAT(c.warnings, IsEmpty());
  EXPECT_THAT(c.rows, Not(IsEmpty()));
}

TEST(Compare, WhatFollowsFromADeclaredVariableIsShown) {
  const Json patch = {{"server", {{"config", {{"cache", {{"num_blocks", 999}}}}}}}};
  CompareOptions options;
  EXPECT_TRUE(compared({runs_at(kSlow), runs_at(kFast, patch)}, options).is_refused());
  Json both = patch;
  both["server"]["config"]["cache"]["block_size"] = 32;
  options.variables = {"cache.block_size"};
  const Comparison c = compared({runs_at(kSlow), runs_at(kFast, both)}, options);
  EXPECT_FALSE(c.is_refused());
  EXPECT_THAT(fields_of(c.following), ElementsAre("server.config.cache.num_blocks"));
  options.variables = {"policy"};
  EXPECT_TRUE(compared({runs_at(kSlow), runs_at(kFast, both)}, options).is_refused());
}

TEST(Compare, AVariableThatNamesNothingIsAnError) {
  CompareOptions options;
  options.variables = {"max_num_sequences"};
  const auto comparison = compare_runs(std::vector{runs_at(kSlow), runs_at(kFast)}, options);
  ASSERT_FALSE(comparison.ok());
  EXPECT_THAT(comparison.error().message, HasSubstr("max_num_sequences"));
  options.variables = {"policy"};
  EXPECT_THAT(compared({runs_at(kSlow), runs_at(kFast)}, options).warnings,
              ElementsAre("the variable 'policy' does not differ"));
}

TEST(Compare, RunsOfASideMustAgreeEvenInADeclaredVariable) {
  Json other = make_record(10, 100);
  other["server"]["config"]["scheduler"]["max_num_seqs"] = 7;
  CompareOptions options;
  options.variables = {"max_num_seqs"};
  const Comparison c =
      compared({side("a", {make_record(10, 100), other}), runs_at(kFast)}, options);
  ASSERT_TRUE(c.is_refused());
  EXPECT_THAT(c.undeclared[0].values, ElementsAre("64 | 7", "64"));
}

TEST(Compare, AnUnknownHashIsNoDifferenceAndAnotherHashIs) {
  const auto hash = [](const char* value) {
    return Json{{"server", {{"config", {{"model", {{"weights_sha256", value}}}}}}}};
  };
  EXPECT_FALSE(compared({runs_at(kSlow), runs_at(kFast, hash("aa"))}).is_refused());
  EXPECT_TRUE(compared({runs_at(kSlow, hash("bb")), runs_at(kFast, hash("aa"))}).is_refused());
}

TEST(Compare, TheServersMachineIsAConditionAndItsPortIsNot) {
  const auto url = [](const char* value) { return Json{{"server", {{"url", value}}}}; };
  EXPECT_FALSE(compared({runs_at(kSlow, url("http://localhost:1")),
                         runs_at(kFast, url("http://127.0.0.1:2"))})
                   .is_refused());
  const Comparison c = compared(
      {runs_at(kSlow, url("http://a.example:1")), runs_at(kFast, url("http://b.example:1"))});
  EXPECT_THAT(fields_of(c.undeclared), ElementsAre("server.host"));
}

TEST(Compare, FailedRequestsWarnAndWeakenThroughput) {
  const Json patch = {{"results", {{"failed", 3}}}};
  const Comparison c = compared({runs_at(kSlow), runs_at(kFast, patch)});
  EXPECT_THAT(c.warnings, Contains(HasSubstr("B: 15 of 65 requests failed")));
  EXPECT_EQ(row(c, "output_throughput").contrasts[0].note, "requests failed");
  EXPECT_EQ(row(c, "mean_ttft_ms").contrasts[0].note, "");
}

TEST(Compare, ANoisyMachineIsAWarning) {
  const Json patch = {{"noise", {{"steal_share", 0.2}, {"load1_before", 7.0}, {"mhz_after", 1000}}},
                      {"client", {{"cpu_share", 0.93}}}};
  const Comparison c = compared({runs_at({10}), runs_at({11}, patch)});
  EXPECT_THAT(
      c.warnings,
      ElementsAre(HasSubstr("20.0 % of the CPU time was stolen"), HasSubstr("load 7.00 on 2 CPUs"),
                  HasSubstr("from 2000 to 1000 MHz"), HasSubstr("93 % of a core")));
}

TEST(Compare, CachesOfDifferentWarmthAreAWarning) {
  const auto state = [](const char* value) { return Json{{"prefix_cache", {{"state", value}}}}; };
  EXPECT_THAT(compared({runs_at({10}, state("cold")), runs_at({11}, state("warm"))}).warnings,
              ElementsAre(HasSubstr("A: \"cold\"; B: \"warm\"")));
  EXPECT_THAT(compared({runs_at({10}, state("warm")), runs_at({11}, state("warm"))}).warnings,
              IsEmpty());
}

TEST(Compare, AZeroHasNoRatioAndAFigureThatARunLacksIsLeftOut) {
  const Json patch = {{"results", {{"output_throughput", 0}, {"p99_ttft_ms", nullptr}}}};
  const Comparison c = compared({runs_at(kSlow), runs_at(kFast, patch)});
  EXPECT_FALSE(row(c, "output_throughput").contrasts[0].ratio.has_value());
  EXPECT_EQ(row(c, "output_throughput").contrasts[0].verdict, Verdict::kNotDistinguishable);
  EXPECT_THAT(c.rows, Not(Contains(Field(&MetricRow::key, "p99_ttft_ms"))));
  EXPECT_THAT(c.warnings, ElementsAre(HasSubstr("p99_ttft_ms is left out")));
}

/// Rounds that drift by a factor of two: within each, B is 5 % faster.
std::vector<RunSet> drifting_rounds(const std::string& session_of_b) {
  std::vector<Json> a;
  std::vector<Json> b;
  for (int round = 1; round <= 5; ++round) {
    const double speed = 10 * (1 + 0.2 * round);
    a.push_back(make_record(speed, 1000 / speed));
    a.back()["session"] = {{"id", "s"}, {"round", round}};
    b.push_back(make_record(speed * 1.05, 1000 / speed / 1.05));
    b.back()["session"] = {{"id", session_of_b}, {"round", round}};
  }
  return {side("a", a), side("b", b)};
}

TEST(Compare, RoundsOfOneSessionArePairedAndBeatDrift) {
  const Comparison paired = compared(drifting_rounds("s"));
  EXPECT_TRUE(paired.is_paired);
  EXPECT_EQ(row(paired, "output_throughput").contrasts[0].verdict, Verdict::kBetter);
  EXPECT_NEAR(*row(paired, "output_throughput").contrasts[0].ratio, 1.05, 1e-12);
  const Comparison apart = compared(drifting_rounds("t"));
  EXPECT_FALSE(apart.is_paired);
  EXPECT_EQ(row(apart, "output_throughput").contrasts[0].verdict, Verdict::kNotDistinguishable);
}

TEST(Compare, RoundsMaySendTheirOwnPromptsIfAllSidesSendThem) {
  const auto rounds = [](double speed, const std::string& session, const char* second) {
    std::vector<Json> records(2, make_record(speed, 100));
    records[1]["dataset"]["prompts_sha256"] = second;
    for (int i = 0; i < 2; ++i) records[size_t(i)]["session"] = {{"id", session}, {"round", i + 1}};
    return side("r", records);
  };
  EXPECT_FALSE(compared({rounds(1, "s", "x"), rounds(2, "s", "x")}).is_refused());
  const Comparison c = compared({rounds(1, "s", "x"), rounds(2, "s", "y")});
  ASSERT_TRUE(c.is_refused());
  EXPECT_THAT(c.undeclared[0].values, ElementsAre("1: \"abc\", 2: \"x\"", "1: \"abc\", 2: \"y\""));
  EXPECT_TRUE(compared({rounds(1, "s", "x"), rounds(2, "t", "x")}).is_refused());
}

TEST(Compare, TheSameRunsGiveTheSameReport) {
  const std::vector<RunSet> sides = {runs_at({10, 12, 11}), runs_at({12, 13, 11.5})};
  const Comparison one = compared(sides);
  EXPECT_EQ(comparison_json(one), comparison_json(compared(sides)));
  EXPECT_EQ(comparison_html(one), comparison_html(compared(sides)));
  CompareOptions options;
  options.resample.seed = 1;
  options.resample.num_resamples = 100;
  EXPECT_NE(comparison_json(one), comparison_json(compared(sides, options)));
}

TEST(ComparePage, HtmlLoadsNothingAndTextCannotBecomeMarkup) {
  Json hostile = {{"server", {{"config", {{"model", {{"path", "<script>x</script>|\n# h"}}}}}}}};
  CompareOptions options;
  options.variables = {"path"};
  const Comparison c = compared({runs_at(kSlow), runs_at(kFast, hostile)}, options);
  const std::string html = comparison_html(c);
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;"));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, HasSubstr("<svg "));
  for (const char* bad : {"<script", "http://", "https://", "src=", "@import", "url("}) {
    EXPECT_THAT(html, Not(HasSubstr(bad)));
  }
  EXPECT_THAT(comparison_page(c), HasSubstr("\\<script\\>x\\</script\\>\\|"));
}

TEST(ComparePage, FiguresHaveFourDigits) {
  EXPECT_EQ(format_figure(0), "0");
  EXPECT_EQ(format_figure(1234.56), "1235");
  EXPECT_EQ(format_figure(12.3456), "12.35");
  EXPECT_EQ(format_figure(0.00123456), "0.001235");
}

}  // namespace
}  // namespace octavo::bench
