#include "bench/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

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

TEST(RunRecord, ErrorsAreCounted) {
  std::vector<Outcome> outcomes(4);
  outcomes[0].success = true;
  outcomes[1].error = outcomes[2].error = "busy";
  outcomes[3].error = "cut off";
  EXPECT_EQ(count_errors(outcomes), Json({{"busy", 2}, {"cut off", 1}}));
}

}  // namespace
}  // namespace octavo::bench
