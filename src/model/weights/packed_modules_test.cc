#include "model/weights/packed_modules.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>

#include "base/random.h"
#include "checkpoint/safetensors.h"
#include "kernels/embedding/embedding.h"
#include "model/test_checkpoint.h"

namespace octavo::model {
namespace {

using checkpoint::TensorType;
using testing::AllOf;
using testing::HasSubstr;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Result<SourceTensor> take(const TestCheckpoint& checkpoint, int64_t num_rows, int64_t num_cols,
                          TestKernels& kernels) {
  OCTAVO_TRY(const Quantization plan, plan_quantization("", DTypeChoice::kAuto, checkpoint));
  const auto source =
      make_packed_source(make_checkpoint_source(checkpoint), plan, checkpoint, kernels.pool);
  OCTAVO_TRY(SourceTensor tensor,
             source->take_matrix({"m", num_rows, num_cols, MatrixUse::kLinear}));
  OCTAVO_TRY(source->check_all_taken(1, false));
  return tensor;
}

/// The matrix that the kernels compute with, [num_rows, num_cols] in the order of the inputs.
std::vector<float> values_of(const SourceTensor& tensor, int64_t num_rows, int64_t num_cols,
                             TestKernels& kernels) {
  const kernels::WeightPart part{tensor.data, tensor.format, num_rows, {}};
  const auto matrix = kernels::PackedMatrix::create(kernels.ctx, {&part, 1}, num_cols,
                                                    tensor.format, kernels::Arithmetic::kF32)
                          .value();
  std::vector<int32_t> ids(static_cast<size_t>(num_rows));
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<float> packed(static_cast<size_t>(num_rows * num_cols));
  kernels::embedding(kernels.ctx, packed.data(), ids.data(), num_rows, matrix);
  if (tensor.col_order.empty()) return packed;
  std::vector<float> values(packed.size());
  for (int64_t n = 0; n < num_rows; ++n) {
    for (int64_t k = 0; k < num_cols; ++k) {
      values[size_t(n * num_cols + tensor.col_order[size_t(k)])] = packed[size_t(n * num_cols + k)];
    }
  }
  return values;
}

/// A module of tests/golden/quantized.
struct Golden {
  TestCheckpoint checkpoint;
  std::vector<float> values;
  int64_t num_rows() const { return int64_t(values.size()) / 128; }
};
Golden read_golden(const std::string& name) {
  const std::string base = OCTAVO_SOURCE_DIR "/tests/golden/quantized/" + name;
  Golden golden{TestCheckpoint(read_file(base + ".json")), {}};
  const std::string file = read_file(base + ".safetensors");
  const auto bytes = std::as_bytes(std::span(file.data(), file.size()));
  const auto contents = checkpoint::parse_safetensors(bytes, name).value();
  for (const auto& tensor : contents.tensors) {
    if (tensor.name == "values") {
      golden.values.resize(tensor.data.size() / 4);
      std::memcpy(golden.values.data(), tensor.data.data(), tensor.data.size());
      continue;
    }
    golden.checkpoint.add_raw(tensor.name, tensor.type, tensor.shape,
                              {tensor.data.begin(), tensor.data.end()});
  }
  return golden;
}

class PackedGolden : public testing::TestWithParam<const char*> {};

TEST_P(PackedGolden, HasTheValuesOfItsOwnTool) {
  const Golden golden = read_golden(GetParam());
  const int64_t num_rows = golden.num_rows();
  ASSERT_TRUE(num_rows == 16 || num_rows == 32);
  TestKernels kernels;
  const auto tensor = take(golden.checkpoint, num_rows, 128, kernels);
  ASSERT_TRUE(tensor.ok()) << tensor.error().message;
  const std::vector<float> got = values_of(*tensor, num_rows, 128, kernels);
  // A scale of 24 bits leaves no room for q: then d * q - d * z is rounded thrice, each by half an
  // ulp of at most 15 d, d at most 1.
  const bool is_wide = std::string_view(GetParam()).ends_with("-f32");
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], golden.values[i], is_wide ? 3 * 0x1p-24 * 16 : 0.0) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, PackedGolden,
                         testing::Values("gptq-4-v1", "gptq-4-v1-asymmetric",
                                         "gptq-4-v2-asymmetric", "gptq-4-v1-act-order", "gptq-8-v1",
                                         "gptq-8-v2-act-order", "awq-64", "awq-128",
                                         "ct-int4-group", "ct-int4-group-asymmetric",
                                         "ct-int4-channel-f32", "ct-int8-pack-group",
                                         "ct-int8-channel", "ct-int8-channel-asymmetric",
                                         "ct-int8-tensor", "ct-f8-channel", "ct-f8-tensor",
                                         "ct-f8-block", "fp8-block", "fp8-tensor"));

TEST(PackedGoldenFormats, ActOrderGivesAnOrderAndOthersNone) {
  TestKernels kernels;
  for (const auto& [name, sorts] :
       {std::pair("gptq-4-v1-act-order", true), std::pair("gptq-8-v2-act-order", true),
        std::pair("gptq-4-v1", false)}) {
    EXPECT_EQ(take(read_golden(name).checkpoint, 16, 128, kernels)->col_order.empty(), !sorts)
        << name;
  }
}

TEST(PackedGoldenFormats, TheLargestGroupThatFitsIsTaken) {
  TestKernels kernels;
  const std::pair<const char*, kernels::WeightFormat> cases[] = {
      {"gptq-4-v1", kernels::WeightFormat::kI4G64},
      {"gptq-4-v1-asymmetric", kernels::WeightFormat::kI4G32},
      {"awq-128", kernels::WeightFormat::kI4G128},
      {"gptq-8-v1", kernels::WeightFormat::kI8G128},
      {"ct-f8-block", kernels::WeightFormat::kF8G64},
      {"ct-f8-channel", kernels::WeightFormat::kF8G128}};
  for (const auto& [name, format] : cases) {
    const Golden golden = read_golden(name);
    EXPECT_EQ(take(golden.checkpoint, golden.num_rows(), 128, kernels)->format, format) << name;
  }
}

// ---- what files get wrong ----

/// A good module of each kind, for the tests to spoil.
std::string error_after(const char* name, const std::function<void(TestCheckpoint&)>& spoil,
                        int64_t num_rows = 0, int64_t num_cols = 128) {
  Golden golden = read_golden(name);
  if (num_rows == 0) num_rows = golden.num_rows();
  spoil(golden.checkpoint);
  TestKernels kernels;
  const auto result = take(golden.checkpoint, num_rows, num_cols, kernels);
  return result.ok() ? "no error" : result.error().message;
}

/// Replaces bytes [at, at + size) of a tensor.
void overwrite(TestCheckpoint& checkpoint, const std::string& name, size_t at, const void* bytes,
               size_t size) {
  const checkpoint::Tensor tensor = *checkpoint.find(name);
  std::vector<std::byte> data(tensor.data.begin(), tensor.data.end());
  std::memcpy(data.data() + at, bytes, size);
  checkpoint.remove(name);
  checkpoint.add_raw(name, tensor.type, tensor.shape, data);
}

TEST(PackedModules, AMissingTensorIsNamed) {
  for (const auto& [name, tensor] :
       {std::pair("gptq-4-v1", "m.scales"), std::pair("gptq-4-v1", "m.qzeros"),
        std::pair("awq-64", "m.scales"), std::pair("awq-64", "m.qzeros"),
        std::pair("ct-int4-group", "m.weight_scale"),
        std::pair("ct-int8-channel", "m.weight_scale"), std::pair("ct-f8-block", "m.weight_scale"),
        std::pair("fp8-block", "m.weight_scale_inv")}) {
    const std::string message =
        error_after(name, [&](TestCheckpoint& checkpoint) { checkpoint.remove(tensor); });
    const std::string_view wanted =
        std::string_view(tensor) == "m.weight_scale_inv" ? "m.weight_scale" : tensor;
    EXPECT_THAT(message, AllOf(HasSubstr(std::string(wanted) + " is missing"), HasSubstr("test")));
  }
  // Without any weight at all.
  EXPECT_THAT(error_after("gptq-4-v1", [](TestCheckpoint& c) { c.remove("m.qweight"); }),
              HasSubstr("m.weight is missing"));
}

TEST(PackedModules, WrongShapesAreNamed) {
  const auto untouched = [](TestCheckpoint&) {};
  for (const char* name : {"gptq-4-v1", "awq-64", "ct-int4-group", "ct-int8-channel", "ct-f8-block",
                           "fp8-block", "gptq-8-v2-act-order"}) {
    for (const auto& [rows, cols] : {std::pair(24, 128), std::pair(0, 256), std::pair(0, 64)}) {
      EXPECT_THAT(error_after(name, untouched, rows, cols),
                  AllOf(HasSubstr("test.file: tensor m."), HasSubstr("should be")))
          << name << rows << " " << cols;
    }
  }
  const auto reshape = [](const char* tensor, std::vector<int64_t> shape) {
    return [=](TestCheckpoint& c) {
      const checkpoint::Tensor old = *c.find(tensor);
      c.remove(tensor);
      int64_t count = 1;
      for (const int64_t dim : shape) count *= dim;
      std::vector<std::byte> bytes(checkpoint::size_bytes_of(old.type, shape).value());
      c.add_raw(tensor, old.type, shape, bytes);
    };
  };
  EXPECT_THAT(error_after("gptq-4-v1", reshape("m.scales", {3, 16})), HasSubstr("m.qzeros"));
  EXPECT_THAT(error_after("gptq-4-v1", reshape("m.scales", {16})), HasSubstr("m.scales"));
  EXPECT_THAT(error_after("gptq-4-v1", reshape("m.scales", {0, 16})), HasSubstr("m.scales"));
  EXPECT_THAT(error_after("gptq-4-v1", reshape("m.scales", {200, 16})), HasSubstr("m.scales"));
  EXPECT_THAT(error_after("gptq-4-v1", reshape("m.g_idx", {127})), HasSubstr("m.g_idx"));
  EXPECT_THAT(error_after("ct-int4-group", reshape("m.weight_scale", {16, 3})),
              HasSubstr("m.weight_scale"));
  EXPECT_THAT(error_after("ct-int4-group", reshape("m.weight_scale", {15, 1})),
              HasSubstr("m.weight_scale"));
  EXPECT_THAT(error_after("ct-int4-group", reshape("m.weight_scale", {16, 1, 1})),
              HasSubstr("m.weight_scale"));
  EXPECT_THAT(error_after("ct-int4-group-asymmetric", reshape("m.weight_zero_point", {2, 3})),
              HasSubstr("m.weight_zero_point"));
  EXPECT_THAT(error_after("ct-int8-channel-asymmetric", reshape("m.weight_zero_point", {16, 2})),
              HasSubstr("m.weight_zero_point"));
  EXPECT_THAT(error_after("fp8-block", reshape("m.weight_scale_inv", {2, 5})),
              HasSubstr("m.weight_scale_inv"));
}

TEST(PackedModules, GroupsOfNoMultipleOf32AreRefused) {
  const auto regroup = [](int64_t groups) {
    return [=](TestCheckpoint& c) {
      for (const auto& [name, type, cols] : {std::tuple("m.scales", TensorType::kF16, 16),
                                             std::tuple("m.qzeros", TensorType::kI32, 2)}) {
        c.remove(name);
        c.add_raw(name, type, {groups, cols},
                  std::vector<std::byte>(checkpoint::size_bytes_of(type, {groups, cols}).value()));
      }
      c.remove("m.g_idx");
    };
  };
  EXPECT_EQ(error_after("gptq-4-v1", regroup(4)), "no error");
  for (const int64_t groups : {3, 8, 128}) {
    EXPECT_THAT(error_after("gptq-4-v1", regroup(groups)), HasSubstr("groups"));
  }
}

TEST(PackedModules, GIdxOutOfRangeOrUnevenIsNamed) {
  for (const int32_t group :
       {-1, 4, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
    EXPECT_THAT(error_after("gptq-4-v1-act-order",
                            [&](TestCheckpoint& c) { overwrite(c, "m.g_idx", 40, &group, 4); }),
                AllOf(HasSubstr("m.g_idx"), HasSubstr("column 10")));
  }
  const std::vector<int32_t> zeros(128);
  EXPECT_THAT(
      error_after("gptq-4-v1-act-order",
                  [&](TestCheckpoint& c) { overwrite(c, "m.g_idx", 0, zeros.data(), 512); }),
      AllOf(HasSubstr("m.g_idx"), HasSubstr("128 columns in group 0")));
  // An empty one says nothing.
  EXPECT_EQ(error_after("gptq-4-v1",
                        [](TestCheckpoint& c) {
                          c.remove("m.g_idx");
                          c.add_raw("m.g_idx", TensorType::kI32, {0}, {});
                        }),
            "no error");
}

TEST(PackedModules, ScalesThatAreNotFiniteAndCodesThatAreNoNumberAreNamed) {
  const uint16_t infinity = 0x7c00, nan = 0x7e00, bf16_infinity = 0x7f80;
  const float f32_nan = std::numeric_limits<float>::quiet_NaN();
  const uint8_t f8_nan = 0xff;
  const auto with = [](const char* name, const auto& value) {
    return [=](TestCheckpoint& c) { overwrite(c, name, sizeof value, &value, sizeof value); };
  };
  EXPECT_THAT(error_after("gptq-4-v1", with("m.scales", infinity)), HasSubstr("m.scales"));
  EXPECT_THAT(error_after("awq-64", with("m.scales", nan)), HasSubstr("m.scales"));
  EXPECT_THAT(error_after("ct-int4-group", with("m.weight_scale", bf16_infinity)),
              HasSubstr("m.weight_scale"));
  EXPECT_THAT(error_after("fp8-block", with("m.weight_scale_inv", f32_nan)),
              HasSubstr("m.weight_scale_inv"));
  EXPECT_THAT(error_after("fp8-block", with("m.weight", f8_nan)),
              AllOf(HasSubstr("m.weight"), HasSubstr("NaN")));
}

TEST(PackedModules, ScalesOfATypeThatHoldsNoneAreNamed) {
  EXPECT_THAT(
      error_after("gptq-4-v1",
                  [](TestCheckpoint& c) {
                    c.remove("m.scales");
                    c.add_raw("m.scales", TensorType::kI32, {2, 16}, std::vector<std::byte>(128));
                  }),
      AllOf(HasSubstr("m.scales"), HasSubstr("I32")));
}

TEST(PackedModules, WhatIsNotQuantisedIsReadAsItIs) {
  // modules_to_not_convert, ignore and their kin: only the tensors count.
  for (const char* config : {R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})",
                             R"({"quantization_config": {"quant_method": "awq"}})",
                             R"({"quantization_config": {"quant_method": "compressed-tensors"}})",
                             R"({"quantization_config": {"quant_method": "fp8"}})"}) {
    TestCheckpoint checkpoint(config);
    checkpoint.add("m.weight", {2, 32}, std::vector<float>(64, 1.5f));
    TestKernels kernels;
    const auto tensor = take(checkpoint, 2, 32, kernels);
    ASSERT_TRUE(tensor.ok()) << tensor.error().message;
    EXPECT_EQ(tensor->format, kernels::WeightFormat::kF32);
  }
  TestCheckpoint odd(R"({"quantization_config": {"quant_method": "fp8"}})");
  odd.add_raw("m.weight", TensorType::kF8_E5M2, {2, 32}, std::vector<std::byte>(64));
  TestKernels kernels;
  const auto result = take(odd, 2, 32, kernels);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, AllOf(HasSubstr("m.weight"), HasSubstr("F8_E5M2")));
}

TEST(PackedModules, ZeroBiasesOfAutoGptqAreNoStrayTensors) {
  const auto with_bias = [](uint16_t value) {
    return [=](TestCheckpoint& c) {
      std::vector<std::byte> bytes(32);
      std::memcpy(bytes.data(), &value, 2);
      c.add_raw("model.layers.0.mlp.up_proj.bias", TensorType::kF16, {16}, bytes);
    };
  };
  EXPECT_EQ(error_after("gptq-4-v1", with_bias(0)), "no error");
  EXPECT_THAT(error_after("gptq-4-v1", with_bias(0x3c00)), HasSubstr("up_proj.bias"));
}

/// The last block of rows and of columns may be cut off: 128 by 128 of a matrix of 160 by 576.
TEST(PackedModules, Fp8BlocksMayEndWithTheMatrix) {
  constexpr int64_t kRows = 160, kCols = 576;
  TestCheckpoint checkpoint(
      R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})");
  SplitMix64 random(3);
  std::vector<std::byte> codes(size_t(kRows * kCols));
  for (std::byte& code : codes) code = std::byte(random.below(0x7f) | random.below(2) << 7);
  std::vector<float> scales(2 * 5);
  for (float& scale : scales) scale = 0.01f + random.uniform();
  checkpoint.add_raw("m.weight", TensorType::kF8_E4M3, {kRows, kCols}, codes);
  checkpoint.add("m.weight_scale_inv", {2, 5}, scales);
  TestKernels kernels;
  const auto tensor = take(checkpoint, kRows, kCols, kernels).value();
  EXPECT_EQ(tensor.format, kernels::WeightFormat::kF8G64);
  const std::vector<float> got = values_of(tensor, kRows, kCols, kernels);
  for (int64_t n = 0; n < kRows; ++n) {
    for (int64_t k = 0; k < kCols; ++k) {
      const int code = int(codes[size_t(n * kCols + k)]), e = code >> 3 & 15, m = code & 7;
      const float value = e == 0 ? std::ldexp(float(m), -9) : std::ldexp(float(8 + m), e - 10);
      const float scale = scales[size_t(n / 128 * 5 + k / 128)];
      ASSERT_EQ(got[size_t(n * kCols + k)], scale * (code >= 128 ? -value : value))
          << n << " " << k;
    }
  }
}

}  // namespace
}  // namespace octavo::model
