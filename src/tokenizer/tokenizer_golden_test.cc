#include <gtest/gtest.h>
#include <simdjson.h>

#include <cstdlib>
#include <map>

#include "tokenizer/test_tokenizers.h"

namespace octavo::tokenizer {
namespace {

constexpr const char* kGolden = OCTAVO_SOURCE_DIR "/tests/golden/";

std::map<int64_t, std::string> golden_texts() {
  simdjson::dom::parser parser;
  std::map<int64_t, std::string> texts;
  for (auto line : parser.load_many(kGolden + std::string("tokenizer/texts.jsonl"))) {
    texts[int64_t(line["i"])] = std::string(std::string_view(line["text"]));
  }
  return texts;
}

std::vector<TokenId> ids_of(simdjson::dom::element element) {
  std::vector<TokenId> ids;
  for (const int64_t id : simdjson::dom::array(element)) ids.push_back(TokenId(id));
  return ids;
}

/// Ids and texts of the reference implementation for `name`.
void expect_golden(const Tokenizer& tokenizer, const std::string& name) {
  const std::map<int64_t, std::string> texts = golden_texts();
  simdjson::dom::parser parser;
  size_t num_lines = 0;
  for (auto line : parser.load_many(kGolden + ("tokenizer/" + name + ".jsonl"))) {
    const int64_t i(line["i"]);
    const std::string& text = texts.at(i);
    const std::vector<TokenId> special = ids_of(line["ids_special"]);
    EXPECT_EQ(tokenizer.encode(text, {.add_special_tokens = false}), ids_of(line["ids"]))
        << name << " " << i << ": " << text;
    EXPECT_EQ(tokenizer.encode(text, {}), special) << name << " " << i;
    EXPECT_EQ(tokenizer.decode(special, true), std::string_view(line["decoded"])) << name << i;
    EXPECT_EQ(tokenizer.decode(special, false), std::string_view(line["decoded_all"])) << name << i;
    EXPECT_EQ(decode_incrementally(tokenizer, special, true), std::string_view(line["decoded"]));
    EXPECT_EQ(decode_incrementally(tokenizer, special, false),
              std::string_view(line["decoded_all"]));
    ++num_lines;
  }
  EXPECT_EQ(num_lines, 150u);
}

TEST(TokenizerGolden, TinyLlamaIsTheReference) {
  expect_golden(*kit_tokenizer("llama"), "tiny-llama");
}

TEST(TokenizerGolden, TinyLlamaRopeScaledIsTheReference) {
  expect_golden(*kit_tokenizer("llama-rope-scaled"), "tiny-llama-rope-scaled");
}

TEST(TokenizerGolden, TinyQwen2IsTheReference) {
  expect_golden(*kit_tokenizer("qwen2"), "tiny-qwen2");
}

void expect_real_checkpoint(const char* variable) {
  const char* path = std::getenv(variable);
  if (path == nullptr) GTEST_SKIP() << variable << " is not set";
  auto checkpoint = checkpoint::Checkpoint::open(path, checkpoint::LoadFormat::kAuto);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  auto tokenizer = Tokenizer::create(**checkpoint);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->bos_token(), "<|im_start|>");
  EXPECT_EQ((*tokenizer)->eos_token(), "<|im_end|>");
  EXPECT_EQ((*tokenizer)->eos_token_id(), 2);
  EXPECT_EQ((*tokenizer)->vocab_size(), 49152);
  expect_golden(**tokenizer, "smollm2");
}

TEST(TokenizerGolden, SmolLm2FromHfIsTheReference) { expect_real_checkpoint("OCTAVO_TEST_HF"); }
TEST(TokenizerGolden, SmolLm2FromGgufIsTheReference) { expect_real_checkpoint("OCTAVO_TEST_GGUF"); }

}  // namespace
}  // namespace octavo::tokenizer
