#include "engine/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace octavo::engine {
namespace {

using ::testing::HasSubstr;
constexpr size_t kGiB = size_t{1} << 30;

PlanInputs machine() {
  PlanInputs in;
  in.model_max_model_len = 8192;
  in.vocab_size = 1000;
  in.kv_block_bytes = size_t{1} << 20;  // 1 MiB for 16 tokens
  in.weight_bytes = kGiB;
  in.memory_limit_bytes = 16 * kGiB;
  in.available_memory_bytes = 14 * kGiB;
  in.activation_bytes = [](int64_t, int64_t, int64_t) { return kGiB / 2; };
  return in;
}

std::string error_of(const config::EngineConfig& config, const PlanInputs& in = machine()) {
  const auto plan = plan_engine(config, in);
  return plan.ok() ? "" : plan.error().message;
}

TEST(Plan, DefaultsAreThoseOfAFewCores) {
  const auto plan = plan_engine({}, machine());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->max_model_len, 8192);
  EXPECT_EQ(plan->max_num_batched_tokens, 512);
  EXPECT_EQ(plan->max_num_seqs, 128);
  EXPECT_EQ(plan->block_size, 16);
  EXPECT_TRUE(plan->enable_prefix_caching);
  EXPECT_TRUE(plan->enable_chunked_prefill);
  EXPECT_EQ(plan->kv_cache_bytes, 4 * kGiB);
  EXPECT_EQ(plan->num_blocks, 4096);
  EXPECT_EQ(plan->kv_cache_size_tokens, 65536);
  EXPECT_DOUBLE_EQ(plan->kv_cache_max_concurrency, 8.0);
}

TEST(Plan, PoolIsNoLargerThanAllSeatsCanUse) {
  config::EngineConfig config;
  config.scheduler.max_num_seqs = 2;
  config.model.max_model_len = 1024;
  EXPECT_EQ(plan_engine(config, machine())->num_blocks, 2 * 64 + 1);
}

TEST(Plan, CeilingCountsWeightsAndActivations) {
  config::EngineConfig config;
  PlanInputs in = machine();
  in.memory_limit_bytes = 4 * kGiB;
  in.available_memory_bytes = 4 * kGiB;
  EXPECT_EQ(plan_engine(config, in)->num_blocks,
            static_cast<int64_t>((3.68 - 1.5) * 1024));  // 0.92 of 4 GiB less 1.5 GiB
  in.weight_bytes = 4 * kGiB;
  EXPECT_THAT(error_of(config, in), HasSubstr("No available memory for the cache blocks."));
}

TEST(Plan, ExplicitFractionTakesAllOfIt) {
  config::EngineConfig config;
  config.cache.gpu_memory_utilization = 0.5;
  config.cache.user_specified_gpu_memory_utilization = true;
  EXPECT_EQ(plan_engine(config, machine())->kv_cache_bytes, 6 * kGiB + kGiB / 2);
  config.cache.gpu_memory_utilization = 1.0;
  EXPECT_THAT(error_of(config), HasSubstr("is less than desired CPU memory utilization"));
}

TEST(Plan, ExplicitBytesAreKeptOrRefused) {
  config::EngineConfig config;
  config.cache.kv_cache_memory_bytes = 1 << 30;
  EXPECT_EQ(plan_engine(config, machine())->num_blocks, 1024);
  config.cache.kv_cache_memory_bytes = int64_t{20} << 30;
  EXPECT_THAT(error_of(config), HasSubstr("--kv-cache-memory-bytes asks for 20.0 GiB"));
  config.cache.kv_cache_memory_bytes = 0;
  EXPECT_THAT(error_of(config), HasSubstr("--kv-cache-memory-bytes"));
}

TEST(Plan, OneRequestOfFullLengthMustFitWithoutTheNullBlock) {
  config::EngineConfig config;
  config.model.max_model_len = 1024;  // 64 blocks
  config.cache.kv_cache_memory_bytes = 65 << 20;
  EXPECT_EQ(error_of(config), "");
  config.cache.kv_cache_memory_bytes = 64 << 20;
  const std::string error = error_of(config);
  EXPECT_THAT(error, HasSubstr("To serve at least one request with the model's max seq len "
                               "(1024), (0.06 GiB KV cache is needed"));
  EXPECT_THAT(error, HasSubstr("the estimated maximum model length is 1008"));
}

TEST(Plan, AutoLowersTheContextToWhatFits) {
  config::EngineConfig config;
  config.model.max_model_len = -1;
  EXPECT_EQ(plan_engine(config, machine())->max_model_len, 8192);
  config.cache.kv_cache_memory_bytes = 64 << 20;
  EXPECT_EQ(plan_engine(config, machine())->max_model_len, 63 * 16);
  config.cache.kv_cache_memory_bytes = 1 << 20;
  EXPECT_THAT(error_of(config), HasSubstr("Cannot auto-fit max_model_len"));
}

TEST(Plan, OverrideOfTheBlockCountEntersTheCheck) {
  config::EngineConfig config;
  config.cache.num_gpu_blocks_override = 20;
  EXPECT_THAT(error_of(config), HasSubstr("To serve at least one request"));
  config.model.max_model_len = 19 * 16;
  EXPECT_EQ(plan_engine(config, machine())->num_blocks, 20);
}

TEST(Plan, LongerThanTheModelNeedsThePermit) {
  config::EngineConfig config;
  config.model.max_model_len = 9000;
  EXPECT_THAT(error_of(config), HasSubstr("User-specified max_model_len (9000) is greater than "
                                          "the derived max_model_len (8192)"));
  config.model.allow_long_max_model_len = true;
  EXPECT_EQ(plan_engine(config, machine())->max_model_len, 9000);
}

TEST(Plan, DefaultsFollowTheOtherLimitsButGivenValuesAreKept) {
  config::EngineConfig config;
  config.model.max_model_len = 16;
  config.scheduler.max_num_seqs = 4;
  EXPECT_EQ(plan_engine(config, machine())->max_num_batched_tokens, 64);
  config.scheduler.max_num_seqs.reset();
  config.scheduler.max_num_batched_tokens = 100;
  EXPECT_EQ(plan_engine(config, machine())->max_num_seqs, 100);
  config.scheduler.max_num_seqs = 101;
  EXPECT_THAT(error_of(config), HasSubstr("max_num_batched_tokens (100) must be greater than or "
                                          "equal to max_num_seqs (101)"));
}

TEST(Plan, WithoutChunkedPrefillAStepHoldsAWholePrompt) {
  config::EngineConfig config;
  config.scheduler.enable_chunked_prefill = false;
  EXPECT_EQ(plan_engine(config, machine())->max_num_batched_tokens, 8192);
  config.scheduler.max_num_batched_tokens = 1000;
  EXPECT_THAT(error_of(config),
              HasSubstr("max_num_batched_tokens (1000) is smaller than max_model_len (8192)"));
}

TEST(Plan, WithoutChunkedPrefillARequestOfAnyLengthCanResumeInOneStep) {
  config::EngineConfig config;
  config.scheduler.max_num_scheduled_tokens = 100;
  EXPECT_EQ(error_of(config), "");
  config.scheduler.enable_chunked_prefill = false;
  EXPECT_THAT(error_of(config), HasSubstr("--max-num-scheduled-tokens (100) is smaller than "
                                          "max_model_len (8192)"));
  config.scheduler.max_num_scheduled_tokens = 8192;
  EXPECT_EQ(error_of(config), "");
}

TEST(Plan, GivenBytesAndActivationsMustFitTogether) {
  config::EngineConfig config;
  config.cache.kv_cache_memory_bytes = 1 << 30;
  PlanInputs in = machine();
  in.activation_bytes = [](int64_t, int64_t, int64_t) { return 380 * kGiB; };
  EXPECT_THAT(error_of(config, in), HasSubstr("--kv-cache-memory-bytes asks for 1.0 GiB and "
                                              "activations take 380.0 GiB"));
  config.cache.kv_cache_memory_bytes = int64_t{14} << 30;
  EXPECT_THAT(error_of(config), HasSubstr("activations take 0.5 GiB"));
  config.cache.kv_cache_memory_bytes = (int64_t{27} << 30) / 2;
  EXPECT_EQ(error_of(config), "");
}

TEST(Plan, GivenNumberOfBlocksMustFitTheMemory) {
  config::EngineConfig config;
  config.cache.num_gpu_blocks_override = 1 << 20;  // 1 TiB
  EXPECT_THAT(error_of(config), HasSubstr("--num-gpu-blocks-override asks for 1024.0 GiB"));
}

TEST(Plan, FaultsThatCannotHappenAreRefused) {
  config::EngineConfig config;
  config.fault = "kill@3";
  EXPECT_TRUE(check_options(config).ok());
  for (const char* text : {"kill@", "kill@x", "kill@0", "stall@-1", "stall@3x", "burn@3", "kill"}) {
    config.fault = text;
    EXPECT_THAT(error_of(config), HasSubstr("OCTAVO_FAULT")) << text;
  }
}

TEST(Plan, ThroughputModeDoublesBothDefaults) {
  config::EngineConfig config;
  config.scheduler.performance_mode = "throughput";
  EXPECT_EQ(plan_engine(config, machine())->max_num_batched_tokens, 1024);
  EXPECT_EQ(plan_engine(config, machine())->max_num_seqs, 256);
}

TEST(Plan, NonsenseIsRefusedByFlag) {
  const auto with = [](auto change) {
    config::EngineConfig config;
    change(config);
    return error_of(config);
  };
  EXPECT_THAT(with([](auto& c) { c.cache.block_size = 0; }), HasSubstr("--block-size"));
  EXPECT_THAT(with([](auto& c) { c.cache.block_size = 8; }), HasSubstr("--block-size is 8"));
  EXPECT_THAT(with([](auto& c) { c.cache.block_size = 24; }), HasSubstr("a multiple of 16"));
  EXPECT_THAT(with([](auto& c) { c.model.max_model_len = 0; }), HasSubstr("--max-model-len"));
  EXPECT_THAT(with([](auto& c) { c.model.max_model_len = -2; }), HasSubstr("--max-model-len"));
  EXPECT_THAT(with([](auto& c) { c.scheduler.max_num_seqs = -1; }), HasSubstr("--max-num-seqs"));
  EXPECT_THAT(with([](auto& c) { c.scheduler.max_num_batched_tokens = 0; }),
              HasSubstr("--max-num-batched-tokens"));
  EXPECT_THAT(with([](auto& c) { c.scheduler.watermark = 1.0; }), HasSubstr("--watermark"));
  EXPECT_THAT(with([](auto& c) { c.cache.gpu_memory_utilization = 0.0; }),
              HasSubstr("--gpu-memory-utilization"));
  EXPECT_THAT(with([](auto& c) { c.scheduler.long_prefill_token_threshold = 9000; }),
              HasSubstr("--long-prefill-token-threshold"));
  EXPECT_THAT(with([](auto& c) { c.scheduler.scheduling_policy = "lifo"; }),
              HasSubstr("--scheduling-policy"));
  EXPECT_THAT(with([](auto& c) { c.cache.prefix_caching_hash_algo = "md5"; }),
              HasSubstr("--prefix-caching-hash-algo"));
  EXPECT_THAT(with([](auto& c) { c.cache.num_gpu_blocks_override = 1; }),
              HasSubstr("--num-gpu-blocks-override"));
}

TEST(Plan, PrintsGibAndThousandsAsOperatorsGrepThem) {
  EXPECT_EQ(format_gib(kGiB * 3 / 2), "1.5");
  EXPECT_EQ(format_gib(0), "0.0");
  EXPECT_EQ(format_gib(kGiB / 4), "0.25");
  EXPECT_EQ(format_thousands(0), "0");
  EXPECT_EQ(format_thousands(999), "999");
  EXPECT_EQ(format_thousands(1000), "1,000");
  EXPECT_EQ(format_thousands(1234567), "1,234,567");
  EXPECT_EQ(format_thousands(-123456), "-123,456");
}

}  // namespace
}  // namespace octavo::engine
