#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "base/temp_folder.h"
#include "checkpoint/test_files.h"

namespace octavo::checkpoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::string_view kOneTensor = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
constexpr std::string_view kOtherTensor =
    R"({"b":{"dtype":"F16","shape":[4],"data_offsets":[0,8]}})";

std::string gguf_bytes() {
  return ByteWriter().raw("GGUF").put(3).put(uint64_t{0}).put(uint64_t{0}).bytes();
}

std::string error_of(const std::string& path, LoadFormat format = LoadFormat::kAuto) {
  const auto result = Checkpoint::open(path, format);
  EXPECT_FALSE(result.ok());
  return result.ok() ? "" : result.error().message;
}

TEST(Checkpoint, OpensADirectoryWithOneFile) {
  const auto result = Checkpoint::open(OCTAVO_SOURCE_DIR "/tests/golden/qwen2", LoadFormat::kAuto);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const Checkpoint& checkpoint = **result;
  EXPECT_FALSE(checkpoint.is_gguf());
  EXPECT_TRUE(checkpoint.has_weights());
  EXPECT_EQ(checkpoint.path(), OCTAVO_SOURCE_DIR "/tests/golden/qwen2");
  EXPECT_EQ(*checkpoint.config().find("model_type")->as_string(), "qwen2");
  EXPECT_NE(checkpoint.generation_config().find("eos_token_id"), nullptr);
  const Tensor* embed = checkpoint.find("model.embed_tokens.weight");
  ASSERT_NE(embed, nullptr);
  EXPECT_EQ(embed->type, TensorType::kBF16);
  EXPECT_EQ(checkpoint.find("missing"), nullptr);
  const std::byte before = embed->data[0];
  checkpoint.drop_pages();
  EXPECT_EQ(embed->data[0], before);
}

TEST(Checkpoint, ReadFileStaysInTheDirectory) {
  const TempFolder dir;
  dir.write("config.json", "{}");
  dir.write("tokenizer.json", "text");
  const auto checkpoint = Checkpoint::open(dir.path(), LoadFormat::kDummy);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(**(*checkpoint)->read_file("tokenizer.json"), "text");
  EXPECT_FALSE((*checkpoint)->read_file("missing.json")->has_value());
  for (const std::string_view name :
       {std::string_view("../config.json"), std::string_view(".."), std::string_view("/etc/passwd"),
        std::string_view(""), std::string_view("a\0b", 3)}) {
    const auto text = (*checkpoint)->read_file(name);
    ASSERT_FALSE(text.ok()) << name;
    EXPECT_THAT(text.error().message, HasSubstr("no plain file name"));
  }
}

TEST(Checkpoint, ReadFileRefusesWhatIsNoRegularFile) {
  const TempFolder dir;
  dir.write("config.json", "{}");
  ASSERT_EQ(mkfifo((dir.path() + "/pipe").c_str(), 0600), 0);
  std::filesystem::create_directory(dir.path() + "/folder");
  const auto checkpoint = Checkpoint::open(dir.path(), LoadFormat::kDummy);
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_FALSE((*checkpoint)->read_file("pipe").ok());
  EXPECT_FALSE((*checkpoint)->read_file("folder").ok());
}

TEST(Checkpoint, DummyNeedsNoWeights) {
  const TempFolder dir;
  dir.write("config.json", R"({"model_type": "llama"})");
  const auto checkpoint = Checkpoint::open(dir.path(), LoadFormat::kDummy);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_FALSE((*checkpoint)->has_weights());
  EXPECT_TRUE((*checkpoint)->tensors().empty());
  EXPECT_THAT(error_of(dir.path()), HasSubstr("holds no *.safetensors file"));
  dir.write("pytorch_model.bin", "x");
  EXPECT_THAT(error_of(dir.path()), HasSubstr("converted to safetensors"));
}

TEST(Checkpoint, ReadsShardsOfTheIndex) {
  const TempFolder dir;
  dir.write("config.json", "{}");
  dir.write("one.safetensors", safetensors_file(kOneTensor, 8));
  dir.write("two.safetensors", safetensors_file(kOtherTensor, 8));
  dir.write("stray.safetensors", safetensors_file(kOtherTensor, 8));
  dir.write("model.safetensors.index.json",
            R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})");
  const auto checkpoint = Checkpoint::open(dir.path(), LoadFormat::kSafetensors);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ((*checkpoint)->tensors().size(), 2u);
  EXPECT_EQ((*checkpoint)->find("b")->file, dir.path() + "/two.safetensors");
}

TEST(Checkpoint, IndexMayNotLeaveItsDirectory) {
  const TempFolder dir;
  dir.write("config.json", "{}");
  for (const char* file : {"../../etc/passwd", "/etc/passwd", "..", "", "a/b"}) {
    dir.write("model.safetensors.index.json",
              R"({"weight_map": {"a": ")" + std::string(file) + "\"}}");
    EXPECT_THAT(error_of(dir.path()),
                AllOf(HasSubstr("tensor 'a'"), HasSubstr("no plain file name")));
  }
  dir.write("model.safetensors.index.json", R"({"weight_map": {"a": 1}})");
  EXPECT_THAT(error_of(dir.path()), HasSubstr("tensor 'a'"));
  dir.write("model.safetensors.index.json", R"({"weight_map": []})");
  EXPECT_THAT(error_of(dir.path()), HasSubstr("weight_map"));
}

TEST(Checkpoint, MissingShardOrTensorIsNamed) {
  const TempFolder dir;
  dir.write("config.json", "{}");
  dir.write("model.safetensors.index.json", R"({"weight_map": {"b": "one.safetensors"}})");
  EXPECT_THAT(error_of(dir.path()), HasSubstr("one.safetensors: cannot open"));
  dir.write("one.safetensors", safetensors_file(kOneTensor, 8));
  EXPECT_THAT(error_of(dir.path()),
              AllOf(HasSubstr("tensor 'b' is not in"), HasSubstr("one.safetensors")));
}

TEST(Checkpoint, WithoutIndexEveryFileCounts) {
  const TempFolder dir;
  dir.write("config.json", "{}");
  dir.write("x.safetensors", safetensors_file(kOneTensor, 8));
  dir.write("y.safetensors", safetensors_file(kOtherTensor, 8));
  const auto checkpoint = Checkpoint::open(dir.path(), LoadFormat::kAuto);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ((*checkpoint)->tensors().size(), 2u);
  dir.write("z.safetensors", safetensors_file(kOneTensor, 8));
  EXPECT_THAT(error_of(dir.path()), AllOf(HasSubstr("tensor 'a'"), HasSubstr("is also in")));
}

TEST(Checkpoint, AutoFindsGguf) {
  const TempFolder dir;
  const std::string by_name = dir.write("m.gguf", gguf_bytes());
  const TempFolder other;
  const std::string by_magic = other.write("blob", gguf_bytes());
  for (const std::string& path : {by_name, by_magic, dir.path()}) {
    const auto checkpoint = Checkpoint::open(path, LoadFormat::kAuto);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    EXPECT_TRUE((*checkpoint)->is_gguf());
    EXPECT_FALSE((*checkpoint)->read_file("tokenizer.json")->has_value());
    EXPECT_TRUE((*checkpoint)->generation_config().is_object());
  }
  EXPECT_THAT(error_of(by_name, LoadFormat::kSafetensors), HasSubstr("is a GGUF file"));
  dir.write("n.gguf", gguf_bytes());
  EXPECT_THAT(error_of(dir.path()), HasSubstr("holds 2 .gguf files"));
}

TEST(Checkpoint, WhatIsNoCheckpointIsExplained) {
  const TempFolder dir;
  EXPECT_THAT(error_of(dir.path()), HasSubstr("holds no config.json and no .gguf file"));
  EXPECT_THAT(error_of(dir.path() + "/none"), HasSubstr("no such file or directory"));
  EXPECT_THAT(error_of(dir.write("empty", "")), HasSubstr("the file is empty"));
  EXPECT_THAT(error_of(dir.write("text", "hello")), HasSubstr("neither a GGUF file nor"));
  EXPECT_THAT(error_of(dir.write("m.safetensors", "x")), HasSubstr("name the directory"));
  EXPECT_THAT(error_of("/dev/null"), HasSubstr("is not a regular file"));
}

TEST(Checkpoint, BrokenConfigIsNamed) {
  const TempFolder dir;
  const std::string path = dir.write("config.json", "{\"a\": ");
  EXPECT_THAT(error_of(dir.path()), HasSubstr(path + ": invalid JSON at byte"));
  dir.write("config.json", "[]");
  EXPECT_THAT(error_of(dir.path()), HasSubstr(path + ": is no JSON object"));
}

TEST(Checkpoint, RealGgufHasTheTensorsOfItsHeader) {
  const char* path = std::getenv("OCTAVO_TEST_GGUF");
  if (path == nullptr) GTEST_SKIP() << "OCTAVO_TEST_GGUF is not set";
  const auto checkpoint = Checkpoint::open(path, LoadFormat::kGguf);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const Tensor* embd = (*checkpoint)->find("token_embd.weight");
  ASSERT_NE(embd, nullptr);
  EXPECT_THAT(embd->shape, testing::ElementsAre(49152, 576));
  EXPECT_EQ((*checkpoint)->config().find("tokenizer.ggml.tokens")->as_strings()->size(), 49152u);
}

}  // namespace
}  // namespace octavo::checkpoint
