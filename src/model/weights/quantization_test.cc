#include "model/weights/quantization.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/test_checkpoint.h"

namespace octavo::model {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Result<Quantization> plan(const std::string& quantization_config, std::string_view flag = "",
                          DTypeChoice dtype = DTypeChoice::kAuto) {
  const TestCheckpoint checkpoint(
      quantization_config.empty()
          ? "{}"
          : fmt::format(R"({{"quantization_config": {}}})", quantization_config));
  return plan_quantization(flag, dtype, checkpoint);
}

std::string error_of(const std::string& quantization_config, std::string_view flag = "",
                     DTypeChoice dtype = DTypeChoice::kAuto) {
  const auto result = plan(quantization_config, flag, dtype);
  return result.ok() ? fmt::format("no error: {}", result->name()) : result.error().message;
}

const std::string kGptq = R"({"quant_method": "gptq", "bits": 4, "group_size": 128})";
const std::string kAwq = R"({"quant_method": "awq", "bits": 4, "group_size": 64})";
const std::string kCt = R"({"quant_method": "compressed-tensors", "format": "pack-quantized"})";
const std::string kFp8 = R"({"quant_method": "fp8", "activation_scheme": "dynamic"})";

TEST(Quantization, ComesFromTheCheckpoint) {
  EXPECT_EQ(plan("")->method, QuantMethod::kNone);
  EXPECT_EQ(plan("null")->method, QuantMethod::kNone);
  EXPECT_EQ(plan(kGptq)->method, QuantMethod::kGptq);
  EXPECT_EQ(plan(kGptq)->bits, 4);
  EXPECT_TRUE(plan(kGptq)->zeros_minus_one);
  EXPECT_FALSE(plan(R"({"quant_method": "gptq", "bits": 8, "checkpoint_format": "gptq_v2"})")
                   ->zeros_minus_one);
  EXPECT_EQ(plan(kAwq)->method, QuantMethod::kAwq);
  EXPECT_EQ(plan(R"({"quant_method": "AWQ", "w_bit": 4, "version": "GEMM"})")->bits, 4);
  EXPECT_EQ(plan(kCt)->method, QuantMethod::kCompressedTensors);
  EXPECT_EQ(plan(R"({"quant_method": "compressed_tensors"})")->name(), "compressed-tensors");
  EXPECT_EQ(plan(kFp8)->method, QuantMethod::kFp8);
  const auto blocks = plan(R"({"quant_method": "fp8", "weight_block_size": [128, 64]})");
  EXPECT_EQ(blocks->block_rows, 128);
  EXPECT_EQ(blocks->block_cols, 64);
}

TEST(Quantization, TheFlagMayRepeatWhatTheCheckpointSays) {
  for (const char* flag : {"gptq", "GPTQ", "gptq_marlin"}) {
    EXPECT_EQ(plan(kGptq, flag)->method, QuantMethod::kGptq) << flag;
  }
  EXPECT_EQ(plan(kAwq, "awq_marlin")->method, QuantMethod::kAwq);
  EXPECT_EQ(plan(kCt, "compressed-tensors")->method, QuantMethod::kCompressedTensors);
  EXPECT_EQ(plan(kFp8, "fp8")->method, QuantMethod::kFp8);
  const TestCheckpoint gguf("{}", true);
  EXPECT_EQ(plan_quantization("gguf", DTypeChoice::kFloat32, gguf)->name(), "gguf");
  EXPECT_EQ(plan_quantization("", DTypeChoice::kAuto, gguf)->name(), "gguf");
}

TEST(Quantization, TheFlagPacksWhatIsNotQuantised) {
  EXPECT_EQ(plan("", "int8")->method, QuantMethod::kOnlineInt8);
  EXPECT_EQ(plan("", "q4")->method, QuantMethod::kOnlineQ4);
  EXPECT_EQ(plan("", "fp8")->method, QuantMethod::kOnlineFp8);
  EXPECT_EQ(plan("", "fp8", DTypeChoice::kFloat32)->name(), "fp8");
}

TEST(Quantization, AFlagThatDiffersIsAnErrorWithBothNames) {
  EXPECT_THAT(error_of(kGptq, "awq"),
              AllOf(HasSubstr("--quantization awq"), HasSubstr("gptq"), HasSubstr("config.json")));
  EXPECT_THAT(error_of(kGptq, "int8"), AllOf(HasSubstr("--quantization int8"), HasSubstr("gptq")));
  EXPECT_THAT(error_of(kAwq, "fp8"), AllOf(HasSubstr("--quantization fp8"), HasSubstr("awq")));
  const TestCheckpoint gguf("{}", true);
  const auto result = plan_quantization("q4", DTypeChoice::kAuto, gguf);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, AllOf(HasSubstr("--quantization q4"), HasSubstr("gguf")));
}

TEST(Quantization, AFlagThatNamesNothingListsWhatThereIs) {
  EXPECT_THAT(error_of("", "awq"), AllOf(HasSubstr("--quantization awq"),
                                         HasSubstr("no quantization_config"), HasSubstr("int8")));
  EXPECT_THAT(error_of("", "bitsandbytes"),
              AllOf(HasSubstr("--quantization bitsandbytes"), HasSubstr("gptq"), HasSubstr("q4")));
}

TEST(Quantization, ADTypeThatTheMethodLacksIsAnErrorWithBothNames) {
  for (const std::string& config : {kGptq, kAwq, kCt, kFp8}) {
    EXPECT_THAT(error_of(config, "", DTypeChoice::kFloat32),
                AllOf(HasSubstr("--dtype float32"), HasSubstr(plan(config)->name())));
    EXPECT_TRUE(plan(config, "", DTypeChoice::kFloat16).ok());
    EXPECT_TRUE(plan(config, "", DTypeChoice::kBFloat16).ok());
  }
}

TEST(Quantization, UnknownMethodsAreNamedBesideTheKnownOnes) {
  EXPECT_THAT(error_of(R"({"quant_method": "bitsandbytes"})"),
              AllOf(HasSubstr("quant_method"), HasSubstr("bitsandbytes"),
                    HasSubstr("awq, compressed-tensors, fp8, gptq")));
  EXPECT_THAT(error_of(R"({"bits": 4})"), HasSubstr("quant_method is missing"));
  EXPECT_THAT(error_of("4"), HasSubstr("is no object"));
  EXPECT_THAT(error_of(R"({"quant_method": 4})"), HasSubstr("quant_method"));
}

TEST(Quantization, WhatAMethodWantsAndIsNotReadIsNamedByItsKey) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"quant_method": "gptq"})", "bits"},
      {R"({"quant_method": "gptq", "bits": 3})", "bits"},
      {R"({"quant_method": "gptq", "bits": "x"})", "bits"},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": 16})", "group_size"},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": 0})", "group_size"},
      {R"({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"})", "marlin"},
      {R"({"quant_method": "gptq", "bits": 4, "dynamic": {"-:x": {}}})", "dynamic"},
      {R"({"quant_method": "awq", "bits": 8})", "bits"},
      {R"({"quant_method": "awq", "version": "gemv"})", "version"},
      {R"({"quant_method": "fp8", "activation_scheme": "x"})", "activation_scheme"},
      {R"({"quant_method": "fp8", "weight_block_size": [128]})", "weight_block_size"},
      {R"({"quant_method": "fp8", "weight_block_size": [128, 16]})", "weight_block_size"},
      {R"({"quant_method": "fp8", "weight_block_size": [0, 128]})", "weight_block_size"},
      {R"({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"})", "nvfp4"},
      {R"({"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-24"}})",
       "sparse-24"},
      {R"({"quant_method": "compressed-tensors", "transform_config": {"a": 1}})", "transform"},
      {R"({"quant_method": "compressed-tensors",
           "config_groups": {"group_0": {"weights": {"num_bits": 2}}}})",
       "num_bits"},
      {R"({"quant_method": "compressed-tensors",
           "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float"}}}})",
       "num_bits"},
      {R"({"quant_method": "compressed-tensors",
           "config_groups": {"group_0": {"weights": {"group_size": 48}}}})",
       "group_size"},
      {R"({"quant_method": "compressed-tensors", "config_groups": 4})", "config_groups"},
  };
  for (const auto& [config, key] : cases) {
    const std::string message = error_of(config);
    EXPECT_THAT(message, HasSubstr(key)) << config;
    EXPECT_THAT(message, testing::Not(testing::StartsWith("no error"))) << config;
  }
}

}  // namespace
}  // namespace octavo::model
