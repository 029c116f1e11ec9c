#include "cli/serve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "checkpoint/checkpoint.h"
#include "cli/model_files.h"
#include "kernels/dispatch.h"
#include "tokenizer/tokenizer.h"

namespace octavo::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string error_of_serve(const config::Config& config) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_serve(config), 1);
  return ::testing::internal::GetCapturedStderr();
}

TEST(Serve, ObeysTheKernelFlag) {
  config::Config config;
  config.engine.kernel = "generic";
  config.engine.model.model = "no-such-model.gguf";
  config.server.port = 0;
  EXPECT_THAT(error_of_serve(config), HasSubstr("no-such-model.gguf"));
  EXPECT_EQ(kernels::current_isa(), kernels::Isa::kGeneric);
  config.engine.kernel = "auto";
  error_of_serve(config);
  EXPECT_EQ(kernels::current_isa(), kernels::best_isa());
  config.engine.kernel = "mmx";
  EXPECT_THAT(error_of_serve(config), HasSubstr("--kernel mmx"));
}

TEST(Serve, RefusesOptionsBeforeTheModelIsTouched) {
  config::Config config;
  config.engine.cache.block_size = 8;
  config.engine.model.model = "no-such-model.gguf";
  EXPECT_THAT(error_of_serve(config), HasSubstr("--block-size is 8"));
}

class DefaultModel : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / "octavo_default_model";
    std::filesystem::create_directories(folder_);
    ::setenv("OCTAVO_CACHE", folder_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("OCTAVO_CACHE");
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path folder_;
};

TEST_F(DefaultModel, IsServedUnderItsNameNotItsPath) {
  std::ofstream(folder_ / "SmolLM2-135M-Instruct.Q4_1.gguf") << "x";
  config::ModelConfig model;
  ASSERT_TRUE(resolve_model(model).ok());
  EXPECT_EQ(model.model, (folder_ / "SmolLM2-135M-Instruct.Q4_1.gguf").string());
  EXPECT_THAT(model.served_model_name, ElementsAre("SmolLM2-135M-Instruct"));

  config::ModelConfig named;
  named.served_model_name = {"mine"};
  ASSERT_TRUE(resolve_model(named).ok());
  EXPECT_THAT(named.served_model_name, ElementsAre("mine"));
}

TEST_F(DefaultModel, IsNamedWhenItIsMissingAndStaysOutOfAGivenOne) {
  config::ModelConfig model;
  EXPECT_THAT(resolve_model(model).error().message, HasSubstr("tools/fetch_model.sh"));
  model.model = "a/b";
  ASSERT_TRUE(resolve_model(model).ok());
  EXPECT_EQ(model.model, "a/b");
  EXPECT_THAT(model.served_model_name, IsEmpty());
}

TEST_F(DefaultModel, ARevisionIsReadFromAHubsFolderAlsoThroughALink) {
  namespace fs = std::filesystem;
  const fs::path snapshot = folder_ / "models--org--name" / "snapshots" / "abc123";
  fs::create_directories(snapshot);
  std::ofstream(snapshot / "m.gguf") << "x";
  fs::create_directory_symlink(snapshot, folder_ / "link");
  EXPECT_EQ(revision_of(snapshot.string()), "abc123");
  EXPECT_EQ(revision_of((snapshot / "m.gguf").string()), "abc123");
  EXPECT_EQ(revision_of((folder_ / "link").string()), "abc123");
  EXPECT_EQ(revision_of(folder_.string()), "");
  EXPECT_EQ(revision_of("/a/snapshots/x"), "");
  EXPECT_EQ(revision_of("/models--a/snapshots"), "");
  EXPECT_EQ(revision_of(""), "");
}

/// What `default_sampling_json` says of the qwen2 kit with an override.
std::string sampling_with(const std::string& override_json, const std::string& folder = "auto") {
  const auto checkpoint = checkpoint::Checkpoint::open(OCTAVO_SOURCE_DIR "/tests/golden/qwen2",
                                                       checkpoint::LoadFormat::kAuto)
                              .value();
  const auto tokenizer = tokenizer::Tokenizer::create(*checkpoint).value();
  config::ModelConfig config;
  config.generation_config = folder;
  config.override_generation_config = override_json;
  const auto json = default_sampling_json(*checkpoint, config, *tokenizer);
  return json.ok() ? *json : "error: " + json.error().message;
}

TEST(DefaultSampling, ValuesOutOfRangeAreErrorsAtStart) {
  const std::string flag = "error: --override-generation-config: ";
  EXPECT_EQ(sampling_with(R"({"temperature":99})"),
            flag + "temperature must be a number from 0 and at most 2");
  EXPECT_EQ(sampling_with(R"({"top_p":0})"), flag + "top_p must be a number above 0 and at most 1");
  for (const char* bad :
       {R"({"top_k":-7})", R"({"top_k":1.5})", R"({"temperature":"x"})", R"({"temperature":true})",
        R"({"skip_special_tokens":1})", R"({"max_new_tokens":0})", R"({"repetition_penalty":0})",
        R"({"min_p":1.1})", R"({"presence_penalty":-3})"}) {
    EXPECT_THAT(sampling_with(bad), ::testing::StartsWith(flag)) << bad;
  }
  EXPECT_THAT(sampling_with(R"({"temperature":0.5,"top_k":-1,"colour":1,"top_p":null})"),
              AllOf(HasSubstr(R"("temperature":0.5)"), HasSubstr(R"("top_k":-1)"),
                    ::testing::Not(HasSubstr("colour"))));
  EXPECT_THAT(sampling_with("{}", "no-such-folder"),
              HasSubstr("that --generation-config names, no-such-folder/generation_config.json"));
}

}  // namespace
}  // namespace octavo::cli
