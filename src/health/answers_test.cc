#include "health/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace octavo::health {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

client::Response body(std::string text, bool is_truncated = false) {
  client::Response out;
  out.head.status = 200;
  out.body = std::move(text);
  out.is_truncated = is_truncated;
  return out;
}

Json data_of(const Judgement& judgement) { return Json::parse(judgement.data_json); }

TEST(SafeText, CannotDriveATerminalAndStaysShort) {
  EXPECT_EQ(safe_text("plain", ""), "plain");
  EXPECT_EQ(safe_text("a\x1b[31m\nb\x7f\xc3\xa9", ""), "a?[31m?b???");
  EXPECT_EQ(safe_text(std::string(kMaxText, 'x'), ""), std::string(kMaxText, 'x'));
  EXPECT_EQ(safe_text(std::string(kMaxText + 1, 'x'), ""), std::string(kMaxText, 'x') + "...");
}

TEST(SafeText, NeverShowsTheKey) {
  EXPECT_EQ(safe_text("Bearer sk-1 and sk-1", "sk-1"), "Bearer *** and ***");
  EXPECT_EQ(safe_text("sk-1sk-1", "sk-1"), "******");
  // The key at the place where the text is cut off.
  const std::string padding(kMaxText - 2, 'x');
  EXPECT_THAT(safe_text(padding + "sk-1 more", "sk-1"), Not(HasSubstr("sk")));
  // A long text of a short key ends in time.
  EXPECT_EQ(safe_text(std::string(1 << 20, '*'), "*"), std::string(kMaxText, '*') + "...");
}

TEST(Judges, OnlyTheStatusCountsForHealth) {
  EXPECT_TRUE(judge_status({}, body("<html>")).passed);
  EXPECT_TRUE(judge_status({}, body("", true)).passed);
}

TEST(Judges, VersionIsAText) {
  const Judgement good = judge_version({"key", ""}, body(R"({"version":"1.2 key"})"));
  EXPECT_TRUE(good.passed);
  EXPECT_EQ(good.detail, "1.2 ***");
  EXPECT_EQ(data_of(good), (Json{{"version", "1.2 ***"}}));
  for (const char* bad : {"", "{", "[]", "null", "{}", R"({"version":3})", R"({"version":null})"}) {
    EXPECT_FALSE(judge_version({}, body(bad)).passed) << bad;
  }
  EXPECT_THAT(judge_version({}, body(R"({"version":"1"})", true)).detail, HasSubstr("larger than"));
}

TEST(Judges, ModelsAreCountedAndListedUpToABound) {
  Json list = Json::array();
  for (int i = 0; i < 500; ++i) list.push_back({{"id", std::string(300, 'm') + std::to_string(i)}});
  const Judgement many = judge_models({}, body(Json{{"data", list}}.dump()));
  EXPECT_TRUE(many.passed);
  EXPECT_EQ(data_of(many)["count"], 500);
  EXPECT_EQ(data_of(many)["ids"].size(), kMaxModels);
  EXPECT_LT(many.data_json.size(), kMaxModels * (kMaxText + 10) + 100);
  // Also one beyond those listed is found.
  EXPECT_TRUE(
      judge_models({"", std::string(300, 'm') + "499"}, body(Json{{"data", list}}.dump())).passed);
  const Judgement other = judge_models({"", "gpt"}, body(R"({"data":[{"id":"a"},{"id":7},3]})"));
  EXPECT_FALSE(other.passed);
  EXPECT_EQ(other.detail, "'gpt' is not served");
  EXPECT_EQ(data_of(other)["count"], 1);
  EXPECT_EQ(judge_models({}, body(R"({"data":[]})")).detail, "no model is listed");
  EXPECT_FALSE(judge_models({}, body(R"({"data":{}})")).passed);
  EXPECT_FALSE(judge_models({}, body(std::string(100000, '['))).passed);
  EXPECT_EQ(first_model(body(R"({"data":[{"id":7},{"id":"a"}]})")), "a");
  EXPECT_EQ(first_model(body("<html>")), std::nullopt);
}

TEST(Judges, LoadIsAFiniteNumber) {
  EXPECT_EQ(judge_load({}, body(R"({"server_load":3})")).detail, "3 requests");
  for (const char* bad : {"{}", R"({"server_load":"3"})", R"({"server_load":1e999})"}) {
    EXPECT_FALSE(judge_load({}, body(bad)).passed) << bad;
  }
}

TEST(Judges, MetricsAddUpOverLabelsAndUsageIsTheHighest) {
  const Judgement judgement = judge_metrics({}, body(R"(# HELP x
vllm:num_requests_running{engine="0"} 2
vllm:num_requests_running{engine="1"} 3
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.5
vllm:generation_tokens_total 1e308
vllm:generation_tokens_total{engine="1"} 1e308
)"));
  EXPECT_TRUE(judgement.passed);
  const Json data = data_of(judgement);
  EXPECT_EQ(data["values"]["running"],
            (Json{{"series", "vllm:num_requests_running"}, {"value", 5.0}}));
  EXPECT_EQ(data["values"]["kv_cache_usage"]["value"], 0.5);
  EXPECT_EQ(data["values"]["generation_tokens"]["value"], 1e308);  // no infinity
  // Missing, not zero.
  EXPECT_TRUE(data["values"]["waiting"].is_null());
  EXPECT_EQ(data["missing"], Json::array({"waiting"}));
}

TEST(Judges, MetricsKnowOtherNamesAndPreferTheNewest) {
  const auto series = [](const char* text) {
    return data_of(judge_metrics({}, body(text)))["values"]["kv_cache_usage"]["series"];
  };
  EXPECT_EQ(series("vllm:gpu_cache_usage_perc 0.1\n"), "vllm:gpu_cache_usage_perc");
  EXPECT_EQ(series("llamacpp:kv_cache_usage_ratio 0.1\n"), "llamacpp:kv_cache_usage_ratio");
  EXPECT_EQ(series("vllm:gpu_cache_usage_perc 0.1\nvllm:kv_cache_usage_perc 0.2\n"),
            "vllm:kv_cache_usage_perc");
}

TEST(Judges, MetricsOfAnotherKindAreAFinding) {
  for (const char* bad : {"", "<html>\n", "vllm:num_requests_running x\n", "other 1\n",
                          "vllm:num_requests_running NaN\n", "vllm:num_requests_running +Inf\n",
                          "vllm:num_requests_running 5"}) {  // the last line may be cut off
    const Judgement judgement = judge_metrics({}, body(bad));
    EXPECT_FALSE(judgement.passed) << bad;
    EXPECT_EQ(data_of(judgement)["missing"].size(), 4u) << bad;
  }
  // The first part of a larger answer is used.
  const Judgement cut = judge_metrics({}, body("vllm:num_requests_running 5\nvllm:num_req", true));
  EXPECT_TRUE(cut.passed);
  EXPECT_EQ(data_of(cut)["truncated"], true);
}

TEST(Judges, GenerateNeedsAChoice) {
  EXPECT_TRUE(judge_generate({}, body(R"({"choices":[{"text":""}]})")).passed);
  EXPECT_FALSE(judge_generate({}, body(R"({"choices":[]})")).passed);
  EXPECT_FALSE(judge_generate({}, body(R"({"error":{}})")).passed);
}

}  // namespace
}  // namespace octavo::health
