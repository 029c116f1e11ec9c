#include "model/weights/kv_scales.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "kernels/linear/convert.h"
#include "model/test_checkpoint.h"

namespace octavo::model {
namespace {

using checkpoint::TensorType;
using device::DType;
using testing::AllOf;
using testing::HasSubstr;

const std::string kModule = "model.layers.0.self_attn";
const std::string kK = kModule + ".k_scale", kV = kModule + ".v_scale";

/// Of two layers.
Result<std::vector<KvScales>> take(const TestCheckpoint& checkpoint,
                                   DType kv_dtype = DType::kE4M3) {
  const auto source = make_checkpoint_source(checkpoint);
  OCTAVO_TRY(std::vector<KvScales> scales,
             take_kv_scales(kv_dtype, checkpoint, kLlama, 2, *source));
  OCTAVO_TRY(source->check_all_taken(2, false));
  return scales;
}

std::string error_of(const TestCheckpoint& checkpoint, DType kv_dtype = DType::kE4M3) {
  const auto scales = take(checkpoint, kv_dtype);
  return scales.ok() ? "no error" : scales.error().message;
}

/// One tensor of each name, values 0.5 and 0.25.
TestCheckpoint with(const std::string& k_name, const std::string& v_name) {
  TestCheckpoint checkpoint("{}");
  checkpoint.add(kModule + k_name, {1}, {0.5f});
  checkpoint.add(kModule + v_name, {1}, {0.25f});
  return checkpoint;
}

TEST(KvScales, AreReadUnderAllTheirNames) {
  const std::pair<const char*, const char*> names[] = {
      {".k_scale", ".v_scale"},
      {".attn.k_scale", ".attn.v_scale"},
      {".k_proj.k_scale", ".v_proj.v_scale"},
      {".k_proj.output_scale", ".v_proj.output_scale"},
      {".qkv_proj.k_scale", ".qkv_proj.v_scale"}};
  const std::vector<KvScales> expected = {{0.5f, 0.25f}, {1.0f, 1.0f}};
  for (const auto& [k, v] : names) EXPECT_EQ(take(with(k, v)).value(), expected) << k;
  TestCheckpoint both("{}");
  both.add(kModule + ".kv_scale", {}, {0.5f});
  EXPECT_EQ(take(both).value()[0], (KvScales{0.5f, 0.5f}));
}

TEST(KvScales, MayBeOfAnyFloatTypeAndShapeOfOne) {
  for (const TensorType type : {TensorType::kBF16, TensorType::kF16}) {
    const bool is_bf16 = type == TensorType::kBF16;
    const uint16_t bits =
        is_bf16 ? kernels::bf16_from_float(0.0625f) : kernels::f16_from_float(0.0625f);
    std::vector<std::byte> bytes(2);
    std::memcpy(bytes.data(), &bits, 2);
    TestCheckpoint checkpoint("{}");
    checkpoint.add_raw(kK, type, {1, 1}, bytes);
    checkpoint.add(kV, {}, {3.0f});
    EXPECT_EQ(take(checkpoint).value()[0], (KvScales{0.0625f, 3.0f}));
  }
}

TEST(KvScales, WithoutAnyThereAreNone) {
  TestCheckpoint bare("{}");
  bare.add("model.norm.weight", {1}, {1.0f});
  EXPECT_TRUE(take(bare).value().empty());
  TestCheckpoint ones("{}");
  ones.add(kK, {1}, {1.0f});
  ones.add(kV, {1}, {1.0f});
  EXPECT_TRUE(take(ones).value().empty());
}

TEST(KvScales, ABadOneIsNamedWithItsFileAndValue) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::pair<float, const char*> values[] = {
      {std::numeric_limits<float>::quiet_NaN(), "is nan"},
      {kInfinity, "is inf"},
      {-kInfinity, "is -inf"},
      {0.0f, "is 0"},
      {-0.0f, "is -0"},
      {-0.5f, "is -0.5"},
      {1e-30f, "is 1e-30"},
      {1e30f, "is 1e+30"}};
  for (const auto& [value, text] : values) {
    for (const bool of_k : {true, false}) {
      TestCheckpoint checkpoint("{}");
      checkpoint.add(kK, {1}, {of_k ? value : 1.0f});
      checkpoint.add(kV, {1}, {of_k ? 1.0f : value});
      EXPECT_THAT(error_of(checkpoint),
                  AllOf(HasSubstr("test.file"), HasSubstr(of_k ? kK : kV), HasSubstr(text)));
      EXPECT_EQ(error_of(checkpoint, DType::kBF16), "no error");
    }
  }
}

TEST(KvScales, OneAHeadIsRefused) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{2}, std::vector<int64_t>{2, 1, 1}, std::vector<int64_t>{0}}) {
    TestCheckpoint checkpoint("{}");
    checkpoint.add(kK, shape, std::vector<float>(size_t(shape[0]), 0.5f));
    checkpoint.add(kV, {1}, {0.5f});
    EXPECT_THAT(error_of(checkpoint), AllOf(HasSubstr("test.file"), HasSubstr(kK),
                                            HasSubstr(fmt::format("[{}]", fmt::join(shape, ", "))),
                                            HasSubstr("--kv-cache-dtype bfloat16")));
    EXPECT_EQ(error_of(checkpoint, DType::kBF16), "no error");
  }
}

TEST(KvScales, WhatIsNoScaleIsRefused) {
  TestCheckpoint ints("{}");
  ints.add_raw(kK, TensorType::kI32, {1}, std::vector<std::byte>(4));
  ints.add(kV, {1}, {0.5f});
  EXPECT_THAT(error_of(ints), AllOf(HasSubstr(kK), HasSubstr("I32")));

  TestCheckpoint cut("{}");
  cut.add_raw(kK, TensorType::kF32, {1}, std::vector<std::byte>(2));
  cut.add(kV, {1}, {0.5f});
  EXPECT_THAT(error_of(cut), HasSubstr(kK));

  TestCheckpoint half("{}");
  half.add(kV, {1}, {0.5f});
  EXPECT_THAT(error_of(half), AllOf(HasSubstr(kV), HasSubstr("none of its keys")));

  TestCheckpoint twice = with(".k_scale", ".v_scale");
  twice.add(kModule + ".k_proj.k_scale", {1}, {0.5f});
  EXPECT_THAT(error_of(twice), AllOf(HasSubstr(kK), HasSubstr(".k_proj.k_scale")));

  // Where no attention looks, the model would be another without it.
  TestCheckpoint stray = with(".k_scale", ".v_scale");
  stray.add("model.layers.1.mlp.k_scale", {1}, {0.5f});
  EXPECT_THAT(error_of(stray), HasSubstr("model.layers.1.mlp.k_scale has no place"));
}

TEST(KvScales, WhatCalibrationLeavesBesideThemIsPassedOver) {
  TestCheckpoint checkpoint = with(".k_scale", ".v_scale");
  for (const char* name : {".q_scale", ".attn.prob_scale", ".k_zero_point", ".v_zero_point"}) {
    checkpoint.add(kModule + name, {1}, {0.0f});
  }
  EXPECT_EQ(error_of(checkpoint), "no error");
  EXPECT_EQ(error_of(checkpoint, DType::kF32), "no error");
}

/// The type that comes of --kv-cache-dtype and a checkpoint's scheme, or the error.
std::string planned(std::optional<DType> asked, const std::string& scheme,
                    const std::string& method = "compressed-tensors") {
  const TestCheckpoint checkpoint(
      fmt::format(R"({{"quantization_config": {{"quant_method": "{}", "kv_cache_scheme": {}}}}})",
                  method, scheme));
  const auto plan = plan_quantization("", DTypeChoice::kAuto, checkpoint);
  if (!plan.ok()) return plan.error().message;
  const auto dtype = plan_kv_dtype(asked, *plan, checkpoint);
  if (!dtype.ok()) return dtype.error().message;
  return dtype->has_value() ? std::string(device::name_of(**dtype)) : "auto";
}

TEST(KvScales, ASchemeMakesAutoFp8) {
  const std::string scheme =
      R"({"type": "float", "num_bits": 8, "strategy": "tensor", "symmetric": true})";
  EXPECT_EQ(planned(std::nullopt, scheme), "fp8_e4m3");
  EXPECT_EQ(planned(std::nullopt, "null"), "auto");
  EXPECT_EQ(planned(DType::kBF16, scheme), "bfloat16");
  EXPECT_EQ(planned(DType::kE5M2, scheme), "fp8_e5m2");
  // Its own key of AutoFP8 is a word, which vLLM does not read either.
  EXPECT_EQ(planned(std::nullopt, R"("static")", "fp8"), "auto");
}

TEST(KvScales, ASchemeThatIsNotReadIsRefusedWhereItWouldCount) {
  const std::pair<const char*, const char*> schemes[] = {
      {R"({"type": "int", "num_bits": 8})", "type"},
      {R"({"type": "float", "num_bits": 4})", "num_bits"},
      {R"({"type": "float", "num_bits": 8, "symmetric": false})", "symmetric"},
      {R"({"type": "float", "num_bits": 8, "strategy": "attn_head"})", "strategy"},
      {R"({"type": "float", "num_bits": "8"})", "num_bits"},
      {R"("fp8")", "kv_cache_scheme"}};
  for (const auto& [scheme, key] : schemes) {
    EXPECT_THAT(planned(std::nullopt, scheme), AllOf(HasSubstr("config.json"), HasSubstr(key)));
    EXPECT_THAT(planned(DType::kE4M3, scheme), HasSubstr(key));
    EXPECT_EQ(planned(DType::kBF16, scheme), "bfloat16");
  }
}

}  // namespace
}  // namespace octavo::model
