#include "bench/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/gpu_facts.h"
#include "bench/load_sampler.h"
#include "bench/record_page.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

void expect_current(const std::string& name, const std::string& page) {
  const std::string path = OCTAVO_SOURCE_DIR "/templates/" + name;
  if (std::getenv("OCTAVO_UPDATE_DOCS") != nullptr) std::ofstream(path) << page;
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(text, page) << "run with OCTAVO_UPDATE_DOCS=1 and commit " << path;
}

TEST(RecordPage, TemplatesAreTheEmptyPages) {
  expect_current("serving-config.md", serving_config_page(nullptr));
  expect_current("benchmark-run-record.md", run_record_page(nullptr));
}

TEST(RecordPage, ValuesStandInTheirRowsAndCannotBreakTheTable) {
  const Json server = {{"url", "http://h"},
                       {"version", "0.33"},
                       {"config", nullptr},
                       {"served_names", {"a|b\nc"}},
                       {"models", {{{"root", "/m"}, {"max_model_len", 4096}}}},
                       {"cache_config_info", {{"block_size", "16"}}}};
  const std::string page = serving_config_page(server);
  EXPECT_THAT(page, HasSubstr("| Version | 0.33 |\n"));
  EXPECT_THAT(page, HasSubstr("| Model | /m |\n"));
  EXPECT_THAT(page, HasSubstr("| Context length | 4096 |\n"));
  EXPECT_THAT(page, HasSubstr("| Block size | 16 |\n"));
  EXPECT_THAT(page, HasSubstr("| Served names | [\"a\\|b\\nc\"] |\n"));
  EXPECT_THAT(page, HasSubstr("| Image digest | |\n"));
  const Json known = {{"config", {{"image_digest", "sha256:aa"}}}};
  EXPECT_THAT(serving_config_page(known), HasSubstr("| Image digest | sha256:aa |\n"));
}

TEST(RunRecord, GainsAreDifferencesAndMissingIsNotZero) {
  const std::string before = "vllm:prompt_tokens_total{engine=\"0\"} 5\n";
  const std::string after =
      "vllm:prompt_tokens_total{engine=\"0\"} 12\nvllm:num_preemptions_total 3\n";
  EXPECT_EQ(counter_gains(before, after),
            Json({{"vllm:num_preemptions_total", 3.0}, {"vllm:prompt_tokens_total", 7.0}}));
  EXPECT_TRUE(counter_gains(std::nullopt, after).is_null());
}

TEST(RunRecord, NoiseIsSharesOfTheInterval) {
  NoiseReading before;
  before.load1 = 0.5;
  before.total_s = 100;
  before.steal_s = 1;
  NoiseReading after = before;
  after.total_s = 120;
  after.steal_s = 2;
  const Json noise = describe_noise(before, after);
  EXPECT_DOUBLE_EQ(noise["steal_share"].get<double>(), 0.05);
  EXPECT_TRUE(noise["mhz_before"].is_null());
  EXPECT_TRUE(describe_noise({}, {})["steal_share"].is_null());
  EXPECT_TRUE(read_noise().total_s.has_value());
}

TEST(RunRecord, TheHashKnowsPromptsAndLengths) {
  SampleRequest a;
  a.prompts = {"Hi"};
  a.output_len = 3;
  SampleRequest b = a;
  EXPECT_EQ(hash_prompts(std::vector{a}), hash_prompts(std::vector{b}));
  EXPECT_EQ(hash_prompts(std::vector{a}).size(), 64u);
  b.output_len = 4;
  EXPECT_NE(hash_prompts(std::vector{a}), hash_prompts(std::vector{b}));
  b = a;
  b.prompts = {"H", "i"};
  EXPECT_NE(hash_prompts(std::vector{a}), hash_prompts(std::vector{b}));
  b.request_id = "other";
  b.prompts = a.prompts;
  EXPECT_EQ(hash_prompts(std::vector{a}), hash_prompts(std::vector{b}));
}

TEST(RunRecord, ThePrefixCacheIsOffColdOrWarm) {
  const std::string before = "vllm:prefix_cache_queries_total{engine=\"0\"} 0\n";
  const Json gains = {{"vllm:prefix_cache_queries_total", 200.0},
                      {"vllm:prefix_cache_hits_total", 50.0}};
  const Json cold = describe_prefix_cache(nullptr, before, gains);
  EXPECT_EQ(cold["state"], "cold");
  EXPECT_EQ(cold["hit_share"], 0.25);
  const std::string used = "vllm:prefix_cache_queries_total{engine=\"0\"} 7\n";
  EXPECT_EQ(describe_prefix_cache(nullptr, used, nullptr)["state"], "warm");
  EXPECT_TRUE(describe_prefix_cache(nullptr, used, nullptr)["hit_share"].is_null());
  const Json off = {{"config", {{"cache", {{"enable_prefix_caching", false}}}}}};
  EXPECT_EQ(describe_prefix_cache(off, used, gains)["state"], "off");
  const Json theirs = {{"cache_config_info", {{"enable_prefix_caching", "False"}}}};
  EXPECT_EQ(describe_prefix_cache(theirs, used, gains)["state"], "off");
  EXPECT_TRUE(describe_prefix_cache(nullptr, "up 1\n", gains)["state"].is_null());
  EXPECT_TRUE(describe_prefix_cache(nullptr, std::nullopt, gains)["state"].is_null());
}

TEST(RunRecord, PeaksAreTheHighestReadings) {
  LoadPeaks peaks;
  add_sample(
      "vllm:kv_cache_usage_perc{engine=\"0\"} 0.5\nvllm:num_requests_running{engine=\"0\"} 3\n"
      "vllm:num_requests_running{engine=\"1\"} 4\n",
      peaks);
  add_sample("vllm:gpu_cache_usage_perc 0.25\nvllm:num_requests_running 2\n", peaks);
  EXPECT_EQ(peaks.num_samples, 2);
  EXPECT_EQ(peaks.kv_usage, 0.5);
  EXPECT_EQ(peaks.running, 7);
  EXPECT_FALSE(peaks.waiting.has_value());  // missing is not zero
  EXPECT_TRUE(describe_peaks(peaks)["peak_waiting"].is_null());
}

TEST(RunRecord, GpusAreReadFromTheTable) {
  constexpr auto kKeys = std::to_array<std::string_view>({"name", "mib", "ecc"});
  const Json gpus = parse_gpu_table("NVIDIA X, 81559, Enabled\nNVIDIA Y, 4096, [N/A]\n", kKeys);
  EXPECT_EQ(gpus, Json({{{"name", "NVIDIA X"}, {"mib", 81559.0}, {"ecc", "Enabled"}},
                        {{"name", "NVIDIA Y"}, {"mib", 4096.0}, {"ecc", nullptr}}}));
  EXPECT_EQ(parse_gpu_table("No devices were found\n", kKeys), Json::array());
  EXPECT_EQ(parse_gpu_table("", kKeys), Json::array());
  const Json facts = gpu_facts();
  EXPECT_EQ(facts["gpus"].is_null(), facts["reason"].is_string());
}

TEST(RunRecord, ErrorsAreCounted) {
  std::vector<Outcome> outcomes(4);
  outcomes[0].success = true;
  outcomes[1].error = outcomes[2].error = "busy";
  outcomes[3].error = "cut off";
  EXPECT_EQ(count_errors(outcomes), Json({{"busy", 2}, {"cut off", 1}}));
}

}  // namespace
}  // namespace octavo::bench
