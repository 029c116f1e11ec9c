#include "golden_kit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace octavo::golden {
namespace {

Prompt read_prompt(const nlohmann::json& json, const std::vector<int32_t>& sample_ids) {
  Prompt prompt;
  prompt.name = json.at("name");
  prompt.ids = json.at("ids").get<std::vector<int32_t>>();
  const nlohmann::json& last = json.at("last");
  prompt.logit_ids = last.at("top_ids").get<std::vector<int32_t>>();
  prompt.logits = last.at("top_logits").get<std::vector<double>>();
  const auto sample_logits = last.at("sample_logits").get<std::vector<double>>();
  prompt.logit_ids.insert(prompt.logit_ids.end(), sample_ids.begin(), sample_ids.end());
  prompt.logits.insert(prompt.logits.end(), sample_logits.begin(), sample_logits.end());
  prompt.logits_std = last.at("std");
  for (const nlohmann::json& value : json.at("prompt_logprobs")) {
    prompt.prompt_logprobs.push_back(value.is_null() ? std::nan("") : value.get<double>());
  }
  const nlohmann::json& continuation = json.at("continuation");
  prompt.continuation = continuation.at("ids").get<std::vector<int32_t>>();
  prompt.logprobs = continuation.at("logprobs").get<std::vector<double>>();
  prompt.margins = continuation.at("margins").get<std::vector<double>>();
  return prompt;
}

}  // namespace

Kit read_kit(const std::string& name) {
  std::ifstream file(std::string(OCTAVO_SOURCE_DIR "/tests/golden/") + name + "/expected.json");
  const nlohmann::json json = nlohmann::json::parse(file);
  Kit kit;
  kit.name = name;
  const auto sample_ids = json.at("sample_ids").get<std::vector<int32_t>>();
  for (const nlohmann::json& prompt : json.at("prompts")) {
    kit.prompts.push_back(read_prompt(prompt, sample_ids));
  }
  kit.bfloat16_rms = json.at("noise").at("bfloat16").at("rms");
  kit.bfloat16_flips = json.at("noise").at("bfloat16").at("flips");
  return kit;
}

TEST(GoldenKit, EveryKitIsThere) {
  for (const char* name : {"llama", "llama-rope-scaled", "qwen2", "qwen3", "smollm2"}) {
    const Kit kit = read_kit(name);
    EXPECT_GE(kit.prompts.size(), 4u) << name;
    for (const Prompt& prompt : kit.prompts) {
      EXPECT_EQ(prompt.logit_ids.size(), prompt.logits.size()) << name;
      EXPECT_EQ(prompt.ids.size(), prompt.prompt_logprobs.size()) << name;
      EXPECT_EQ(prompt.continuation.size(), prompt.margins.size()) << name;
    }
  }
}

}  // namespace octavo::golden
