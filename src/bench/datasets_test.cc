#include "bench/datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace octavo::bench {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TextModel load(const std::string& folder) {
  const std::string json = read_text(folder + "/tokenizer.json");
  const std::string config = read_text(folder + "/tokenizer_config.json");
  auto tokenizer = tokenizer::Tokenizer::from_json(json, config, folder);
  EXPECT_TRUE(tokenizer.ok()) << folder;
  auto model = make_text_model(std::move(*tokenizer), json, config);
  EXPECT_TRUE(model.ok());
  return std::move(*model);
}

const TextModel& tiny() {
  static const TextModel model = load(OCTAVO_SOURCE_DIR "/tests/golden/llama");
  return model;
}

Samples draw(const DatasetOptions& options, const TextModel* model = &tiny()) {
  GlobalRandom random(options.seed);
  std::vector<std::string> notes;
  return sample_requests(options, model, random, notes);
}

/// A file that lives as long as the test.
class TempFile {
 public:
  TempFile(const std::string& name, const std::string& text)
      : path_(testing::TempDir() + "octavo_" + std::to_string(::getpid()) + "_" + name) {
    std::ofstream(path_) << text;
  }
  ~TempFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

std::vector<std::string> prompts(const std::vector<SampleRequest>& requests) {
  std::vector<std::string> out;
  for (const SampleRequest& request : requests) out.push_back(request.prompts[0]);
  return out;
}

void expect_prompts_of_the_original(const std::string& name, const TextModel& model) {
  const Json file =
      Json::parse(read_text(OCTAVO_SOURCE_DIR "/tests/golden/bench/prompts_" + name + ".json"));
  EXPECT_EQ(model.vocab_size, file["vocab_size"].get<int64_t>());
  for (const Json& kit : file["random"]) {
    DatasetOptions options;
    options.name = "random";
    options.seed = kit["seed"];
    options.num_prompts = kit["count"];
    options.random_input_len = kit["input_len"];
    options.random_output_len = kit["output_len"];
    options.random_prefix_len = kit["prefix_len"];
    options.random_input_range_ratio = options.random_output_range_ratio = kit["ratio"];
    const auto requests = draw(options, &model);
    ASSERT_TRUE(requests.ok()) << requests.error().message;
    ASSERT_EQ(requests->size(), kit["prompts"].size());
    for (size_t i = 0; i < requests->size(); ++i) {
      EXPECT_EQ((*requests)[i].prompts[0], kit["prompts"][i][0].get<std::string>());
      EXPECT_EQ((*requests)[i].prompt_len, kit["prompts"][i][1].get<int64_t>());
      EXPECT_EQ((*requests)[i].output_len, kit["prompts"][i][2].get<int64_t>());
    }
  }
  const Json& kit = file["prefix_repetition"];
  DatasetOptions options;
  options.name = "prefix_repetition";
  options.seed = kit["seed"];
  options.num_prompts = kit["count"];
  options.prefix_repetition_num_prefixes = kit["num_prefixes"];
  options.prefix_repetition_prefix_len = kit["prefix_len"];
  options.prefix_repetition_suffix_len = kit["suffix_len"];
  const auto requests = draw(options, &model);
  ASSERT_TRUE(requests.ok()) << requests.error().message;
  ASSERT_EQ(requests->size(), kit["prompts"].size());
  for (size_t i = 0; i < requests->size(); ++i) {
    EXPECT_EQ((*requests)[i].prompts[0], kit["prompts"][i][0].get<std::string>());
    EXPECT_EQ((*requests)[i].prompt_len, kit["prompts"][i][1].get<int64_t>());
  }
}

TEST(Datasets, SyntheticPromptsAreTheOriginals) {
  expect_prompts_of_the_original("tiny-llama", tiny());
  expect_prompts_of_the_original("tiny-qwen2", load(OCTAVO_SOURCE_DIR "/tests/golden/qwen2"));
}

TEST(Datasets, SyntheticPromptsAreTheOriginalsForARealTokenizer) {
  const char* folder = std::getenv("OCTAVO_TEST_HF");
  if (folder == nullptr) GTEST_SKIP() << "OCTAVO_TEST_HF names no checkpoint";
  expect_prompts_of_the_original("smollm2", load(folder));
}

TEST(Datasets, RequestIdsArePrefixAndIndex) {
  DatasetOptions options;
  options.name = "random";
  options.num_prompts = 3;
  options.random_input_len = 8;
  options.request_id_prefix = "bench-x-";
  const auto requests = draw(options);
  ASSERT_TRUE(requests.ok());
  EXPECT_EQ((*requests)[2].request_id, "bench-x-2");
}

TEST(Datasets, BatchesPackSeveralTexts) {
  DatasetOptions options;
  options.name = "random";
  options.num_prompts = 5;
  options.random_input_len = 8;
  options.random_batch_size = 2;
  const auto requests = draw(options);
  ASSERT_TRUE(requests.ok());
  ASSERT_EQ(requests->size(), 3u);
  EXPECT_EQ((*requests)[0].prompts.size(), 2u);
  EXPECT_EQ((*requests)[2].prompts.size(), 1u);
  options.name = "random-rerank";
  options.random_batch_size = 3;
  const auto pairs = draw(options);
  ASSERT_TRUE(pairs.ok());
  ASSERT_EQ(pairs->size(), 2u);
  EXPECT_EQ((*pairs)[0].prompts.size(), 4u);  // the query and three documents
  EXPECT_EQ((*pairs)[1].prompts.size(), 3u);
  EXPECT_EQ((*pairs)[0].prompts[0], (*pairs)[1].prompts[0]);
}

TEST(Datasets, ShareGptKeepsWhatIsNeitherShortNorLong) {
  Json list = Json::array();
  const auto add = [&](const std::string& prompt, const std::string& answer) {
    list.push_back({{"conversations", {{{"value", prompt}}, {{"value", answer}}}}});
  };
  add("a fine prompt of some words", "and a fine answer to that prompt");
  add("x", "a fine answer whose prompt is too short");
  add("a fine prompt of which the answer is short", "y");
  list.push_back({{"conversations", {{{"value", "one turn only"}}}}});
  list.push_back({{"id", 1}});
  std::string longer;
  for (int i = 0; i < 3000; ++i) longer += "word ";
  add(longer, "an answer to a prompt that is too long");
  const TempFile file("sharegpt.json", list.dump());
  DatasetOptions options;
  options.name = "sharegpt";
  options.path = file.path();
  options.num_prompts = 1;
  options.no_oversample = true;
  auto requests = draw(options);
  ASSERT_TRUE(requests.ok()) << requests.error().message;
  EXPECT_THAT(prompts(*requests), ElementsAre("a fine prompt of some words"));
  options.sharegpt_output_len = 2;  // an override also lets short answers pass
  options.num_prompts = 10;
  requests = draw(options);
  ASSERT_TRUE(requests.ok());
  EXPECT_EQ(requests->size(), 2u);
  EXPECT_EQ((*requests)[0].output_len, 2);
  options.no_oversample = false;
  requests = draw(options);
  ASSERT_TRUE(requests.ok());
  ASSERT_EQ(requests->size(), 10u);
  std::set<std::string> ids;
  for (const SampleRequest& request : *requests) ids.insert(request.request_id);
  EXPECT_EQ(ids.size(), 10u);
}

TEST(Datasets, CustomTakesLengthsFromOptionOrFile) {
  const TempFile file("custom.jsonl",
                      "{\"prompt\": \"first\", \"output_tokens\": 7}\n\n"
                      "{\"prompt\": \"second\", \"output_tokens\": \"9\"}\r\n"
                      "{\"prompt\": \"third\", \"output_tokens\": 3.0}");
  DatasetOptions options;
  options.name = "custom";
  options.path = file.path();
  options.num_prompts = -1;
  options.disable_shuffle = true;
  options.skip_chat_template = true;
  options.custom_output_len = -1;
  auto requests = draw(options);
  ASSERT_TRUE(requests.ok()) << requests.error().message;
  EXPECT_THAT(prompts(*requests), ElementsAre("first", "second", "third"));
  EXPECT_EQ((*requests)[0].output_len, 7);
  EXPECT_EQ((*requests)[1].output_len, 9);
  EXPECT_EQ((*requests)[2].output_len, 3);
  EXPECT_EQ((*requests)[0].prompt_len, int64_t(tiny().encode("first", true).size()));
  options.disable_shuffle = false;  // random.seed(0); random.shuffle([0, 1, 2]) gives 0, 2, 1
  requests = draw(options);
  EXPECT_THAT(prompts(*requests), ElementsAre("first", "third", "second"));
  requests = draw(options, nullptr);
  ASSERT_TRUE(requests.ok());
  EXPECT_EQ((*requests)[0].prompt_len, 1);
  options.skip_chat_template = false;
  EXPECT_THAT(draw(options).error().message, HasSubstr("--skip-chat-template"));
}

TEST(Datasets, BurstGptDrawsRowsOfGpt4) {
  const TempFile file("burst.csv",
                      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                      "1,GPT-4,11,5,16,\"a, b\"\n2,ChatGPT,12,6,18,x\n3,GPT-4,13,0,13,x\n"
                      "4,GPT-4,14,7,21,x\n");
  DatasetOptions options;
  options.name = "burstgpt";
  options.path = file.path();
  options.num_prompts = 2;
  auto requests = draw(options);
  ASSERT_TRUE(requests.ok()) << requests.error().message;
  std::set<int64_t> lengths = {(*requests)[0].prompt_len, (*requests)[1].prompt_len};
  EXPECT_EQ(lengths, (std::set<int64_t>{11, 14}));
  options.num_prompts = 20;  // more than there are: drawn with replacement
  requests = draw(options);
  ASSERT_TRUE(requests.ok());
  EXPECT_EQ(requests->size(), 20u);
}

TEST(Datasets, SpecBenchFiltersByCategory) {
  const TempFile file("spec.jsonl",
                      "{\"category\": \"math\", \"turns\": [\"2+2\", \"3+3\"]}\n"
                      "{\"category\": \"qa\", \"turns\": [\"who\"]}\n");
  DatasetOptions options;
  options.name = "spec_bench";
  options.path = file.path();
  options.num_prompts = 1;
  options.skip_chat_template = true;
  options.spec_bench_category = "qa";
  auto requests = draw(options);
  ASSERT_TRUE(requests.ok()) << requests.error().message;
  EXPECT_THAT(prompts(*requests), ElementsAre("who"));
  options.spec_bench_category = "none";
  EXPECT_THAT(draw(options).error().message, HasSubstr("no usable rows"));
}

/// A folder of files that lives as long as the test.
class TempFolder {
 public:
  explicit TempFolder(const std::string& name)
      : path_(testing::TempDir() + "octavo_" + std::to_string(::getpid()) + "_" + name) {}
  ~TempFolder() { std::filesystem::remove_all(path_); }
  void add(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path_ + "/" + name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

TEST(Datasets, SpeedBenchReadsTheSubsetOfAFolder) {
  const TempFolder folder("speed");
  folder.add(
      "qualitative.jsonl",
      "{\"category\": \"math\", \"messages\": [{\"role\": \"user\", \"content\": \"2+2\"}]}\n"
      "{\"category\": \"qa\", \"messages\": [{\"role\": \"user\", \"content\": \"who\"}]}\n");
  folder.add("throughput_1k.jsonl", "{\"category\": \"x\"}\n");
  DatasetOptions options;
  options.name = "speed_bench";
  options.path = folder.path();
  options.num_prompts = 0;  // all
  options.skip_chat_template = options.disable_shuffle = true;
  auto requests = draw(options);
  ASSERT_TRUE(requests.ok()) << requests.error().message;
  EXPECT_THAT(prompts(*requests), ElementsAre("2+2", "who"));
  EXPECT_EQ((*requests)[0].output_len, 4096);
  options.speed_bench_category = "qa";
  EXPECT_THAT(prompts(*draw(options)), ElementsAre("who"));
  options.speed_bench_subset = "throughput_1k";
  EXPECT_THAT(draw(options).error().message, HasSubstr("'messages'"));
  options.path += "/qualitative.jsonl";
  EXPECT_THAT(draw(options).error().message, HasSubstr("needs the folder"));
}

DatasetOptions hub(const std::string& path, const std::string& name) {
  DatasetOptions options;
  options.name = "hf";
  options.path = path;
  options.hf_name = name;
  options.num_prompts = 3;
  options.skip_chat_template = options.disable_shuffle = options.no_oversample = true;
  return options;
}

TEST(Datasets, HubSetsGiveTheTextsThatTheOriginalTakes) {
  const TempFolder folder("hub");
  const auto texts = [&](const std::string& name) {
    const auto requests = draw(hub(folder.path(), name));
    EXPECT_TRUE(requests.ok()) << requests.error().message;
    return requests.ok() ? prompts(*requests) : std::vector<std::string>();
  };
  folder.add("question.jsonl", "{\"turns\": [\"first\", \"second\"]}\n");
  EXPECT_THAT(texts("philschmid/mt-bench"), ElementsAre("first"));
  folder.add("question.jsonl", "{\"prompt\": \"def f():\"}\n");
  auto human_eval = hub(folder.path() + "/question.jsonl", "openai/openai_humaneval");
  EXPECT_THAT(prompts(*draw(human_eval)), ElementsAre("def f():"));
  EXPECT_EQ((*draw(human_eval))[0].output_len, 256);
  human_eval.hf_output_len = 9;
  EXPECT_EQ((*draw(human_eval))[0].output_len, 9);
  folder.add("question.jsonl", "{\"input\": \"x\", \"instruction\": \"Sort it.\"}\n");
  EXPECT_THAT(texts("likaixin/InstructCoder"),
              ElementsAre("x\n\nSort it. Just output the code, do not include any explanation."));
  EXPECT_EQ((*draw(hub(folder.path(), "likaixin/InstructCoder")))[0].output_len, 200);
}

TEST(Datasets, HubSetsWithAnswersTakeTheirLengths) {
  const std::string text = "one two three four five six seven";
  const TempFolder folder("answers");
  folder.add("train.json", Json::array({{{"problem", "hi"}, {"solution", text}},
                                        {{"problem", text}, {"solution", text + " eight"}}})
                               .dump());
  auto options = hub(folder.path(), "AI-MO/NuminaMath-CoT");
  auto requests = draw(options);
  ASSERT_TRUE(requests.ok()) << requests.error().message;
  ASSERT_THAT(prompts(*requests), ElementsAre(text));  // "hi" is shorter than four tokens
  EXPECT_EQ((*requests)[0].output_len, int64_t(tiny().encode(text + " eight", true).size()));
  options.hf_output_len = 2;  // then nothing is passed over
  requests = draw(options);
  EXPECT_THAT(prompts(*requests), ElementsAre("hi", text));
  EXPECT_EQ((*requests)[1].output_len, 2);

  folder.add("train.json",
             Json::array({{{"conversations", {{{"value", text}}}}},
                          {{"conversations", {{{"value", text}}, {{"value", text}}}}}})
                 .dump());
  options = hub(folder.path(), "Aeala/ShareGPT_Vicuna_unfiltered");
  EXPECT_THAT(prompts(*draw(options)), ElementsAre(text));

  folder.add(
      "train.json",
      Json::array({{{"system_prompt", "be brief"}, {"question", text}, {"output", text}}}).dump());
  options = hub(folder.path(), "mgoin/mlperf-inference-llama2-data");
  EXPECT_THAT(draw(options).error().message, HasSubstr("no chat template"));
  TextModel model = load(OCTAVO_SOURCE_DIR "/tests/golden/llama");
  model.render_chat = [](const std::vector<ChatTurn>& turns, const std::string&) {
    std::string out;
    for (const ChatTurn& turn : turns) out += turn.role + ":" + turn.text + ";";
    return Result<std::string>(out);
  };
  requests = draw(options, &model);
  ASSERT_TRUE(requests.ok()) << requests.error().message;
  EXPECT_THAT(prompts(*requests), ElementsAre("system:be brief;user:" + text + ";"));
  EXPECT_EQ((*requests)[0].output_len, int64_t(tiny().encode(text, false).size()));
}

/// The first rows of a set of `count`, in the order in which they are drawn.
std::vector<std::string> hub_order(size_t count, uint32_t seed, bool streams) {
  const TempFolder folder("order");
  std::string text;
  for (size_t i = 0; i < count; ++i) text += Json{{"prompt", std::to_string(i)}}.dump() + "\n";
  folder.add("test.jsonl", text);
  auto options = hub(folder.path(), "openai/openai_humaneval");
  options.disable_shuffle = false;
  options.num_prompts = 7;
  options.seed = seed;
  options.hf_streams = streams;
  const auto requests = draw(options);
  return requests.ok() ? prompts(*requests) : std::vector<std::string>{requests.error().message};
}

// What datasets 5.2.0 and numpy 2.3.5 gave.
TEST(Datasets, HubSetsAreShuffledAsTheHubsLibraryDoes) {
  for (const bool streams : {true, false}) {
    EXPECT_THAT(hub_order(7, 0, streams), ElementsAre("2", "4", "3", "6", "5", "0", "1"));
    EXPECT_THAT(hub_order(7, 3, streams), ElementsAre("5", "6", "2", "1", "4", "3", "0"));
  }
  EXPECT_THAT(hub_order(2500, 0, false),
              ElementsAre("1861", "799", "68", "458", "1476", "1631", "2118"));
  EXPECT_THAT(hub_order(2500, 3, true),
              ElementsAre("334", "618", "590", "388", "679", "105", "797"));
}

TEST(Datasets, HubFilesAreThoseOfTheSplit) {
  const TempFolder folder("split");
  folder.add("main/train-00000-of-00001.jsonl", "{\"question\": \"a\"}\n");
  folder.add("main/test-00000-of-00002.jsonl", "{\"question\": \"b\"}\n");
  folder.add("main/test-00001-of-00002.jsonl", "{\"question\": \"c\"}\n");
  folder.add("other/eval/x.jsonl", "{\"question\": \"d\"}\n");
  folder.add("dataset_infos.json", "{}");
  folder.add("parquet/test.parquet", "PAR1");
  auto options = hub(folder.path(), "openai/gsm8k");
  EXPECT_THAT(prompts(*draw(options)), ElementsAre("b", "c"));
  options.hf_split = "train";
  EXPECT_THAT(prompts(*draw(options)), ElementsAre("a"));
  options.hf_split = "validation";
  EXPECT_THAT(draw(options).error().message, HasSubstr("--hf-split validation"));
  options.hf_split = "test";
  options.hf_subset = "other";
  EXPECT_THAT(prompts(*draw(options)), ElementsAre("d"));
  options.hf_subset = "none";
  EXPECT_THAT(draw(options).error().message, HasSubstr("--hf-subset none"));
  options.hf_subset = "parquet";
  EXPECT_THAT(draw(options).error().message, HasSubstr("JSON lines"));
}

TEST(Datasets, HubSetsThatCannotBeReadAreNamed) {
  const TempFolder folder("no_hub");
  folder.add("philschmid/mt-bench/test.jsonl", "{\"turns\": \"no list\"}\n");
  const auto failure = [](const DatasetOptions& options) {
    const auto requests = draw(options);
    return requests.ok() ? std::string("it was accepted") : requests.error().message;
  };
  EXPECT_THAT(failure(hub("philschmid/mt-bench", "")), HasSubstr("nothing is downloaded"));
  auto options = hub(folder.path() + "/philschmid/mt-bench/", "");  // known by its path
  EXPECT_THAT(failure(options), HasSubstr("--hf-split train"));
  options.hf_split = "test";
  EXPECT_THAT(failure(options), HasSubstr("row 1 lacks one of the texts turns"));
  EXPECT_THAT(failure(hub(folder.path(), "someone/else")), HasSubstr("philschmid/mt-bench"));
  EXPECT_THAT(failure(hub(folder.path(), "yale-nlp/MMVU")), HasSubstr("text only"));
  EXPECT_THAT(failure(hub(folder.path(), "vdaita/edit_5k_char")), HasSubstr("custom"));
  folder.add("philschmid/mt-bench/test.jsonl", "[1, 2]");
  EXPECT_THAT(failure(options), HasSubstr("no JSON list of objects"));
  options.hf_output_len = -4;
  EXPECT_THAT(failure(options), HasSubstr("--hf-output-len"));
}

TEST(Datasets, TraceHashesBecomeTheSameTokensEveryTime) {
  const TempFile file(
      "trace.jsonl",
      "{\"timestamp\": 0.5, \"input_length\": 20, \"output_length\": 3, \"hash_ids\": [7, 8]}\n"
      "{\"timestamp\": 2, \"input_length\": 16, \"output_length\": 4, \"hash_ids\": [7]}\n");
  DatasetOptions options;
  options.name = "timed_trace";
  options.path = file.path();
  options.trace_sec_multiplier = 0.1;
  const auto requests = draw(options);
  ASSERT_TRUE(requests.ok()) << requests.error().message;
  ASSERT_EQ(requests->size(), 2u);
  const std::vector<int64_t>& ids = (*requests)[0].token_ids;
  ASSERT_EQ(ids.size(), 20u);
  EXPECT_EQ((*requests)[1].token_ids, std::vector<int64_t>(ids.begin(), ids.begin() + 16));
  EXPECT_DOUBLE_EQ(*(*requests)[1].timestamp_s, 0.2);
}

TEST(Datasets, UnusableFilesAndOptionsAreNamed) {
  const auto failure = [](DatasetOptions options) {
    const auto requests = draw(options);
    return requests.ok() ? std::string("it was accepted") : requests.error().message;
  };
  const TempFile broken("broken.jsonl", "{\"prompt\": \"a\"}\n{\"prompt\": \n");
  const TempFile deep("deep.json", std::string(100000, '['));
  DatasetOptions options;
  options.name = "custom";
  EXPECT_THAT(failure(options), HasSubstr("needs --dataset-path"));
  options.path = "/no/such/file.jsonl";
  EXPECT_THAT(failure(options), HasSubstr("/no/such/file.jsonl"));
  options.path = broken.path();
  EXPECT_THAT(failure(options), HasSubstr("line 2"));
  options.path = deep.path();
  EXPECT_THAT(failure(options), HasSubstr("JSONL"));
  options.name = "sharegpt";
  EXPECT_THAT(failure(options), HasSubstr("no JSON list"));
  options.name = "random";
  EXPECT_THAT(failure(options), HasSubstr("Cannot use 'random'"));
  options.path.clear();
  options.random_input_len = 1;  // the tokenizer's own BOS takes it
  EXPECT_THAT(failure(options), HasSubstr("too small"));
  options.random_input_len = 10;
  options.random_input_range_ratio = 1;
  EXPECT_THAT(failure(options), HasSubstr("[0, 1)"));
  options.random_input_range_ratio = 0;
  options.random_output_len = -5;
  EXPECT_THAT(failure(options), HasSubstr("from 0 to"));
  options.random_output_len = 5;
  options.num_prompts = 0;
  EXPECT_THAT(failure(options), HasSubstr("--num-prompts"));
  options.name = "prefix_repetition";
  options.num_prompts = 3;
  EXPECT_THAT(failure(options), HasSubstr("num_prefixes (10)"));
}

}  // namespace
}  // namespace octavo::bench
