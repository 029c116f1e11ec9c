#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "engine/engine_core.h"
#include "engine/sampling/sampler.h"
#include "gate.h"

namespace octavo::gates {
namespace {

using namespace engine;  // a program of its own

constexpr int kPromptTokens = 128;
constexpr int kCountedSteps = 32;
constexpr int64_t kVocabSize = 49152;

/// Every sampling sequence gets a token that depends on its position alone.
class InstantRunner final : public ModelRunner {
 public:
  Status submit(const StepBatch& batch, std::span<const SequenceConstraint>) override {
    batch_ = &batch;
    return {};
  }
  Status collect(RunnerOutput& output) override {
    output.results.resize(batch_->sequences.size());
    for (size_t i = 0; i < batch_->sequences.size(); ++i) {
      const ScheduledSequence& sequence = batch_->sequences[i];
      output.results[i] = {};
      if (sequence.samples) {
        output.results[i].token_ids = {1000 + sequence.num_computed_tokens % 1000};
      }
    }
    return {};
  }

 private:
  const StepBatch* batch_ = nullptr;
};

class DroppingSink final : public OutputSink {
 public:
  void publish(StepOutput output) override { num_running = output.stats.num_running; }
  void engine_died(const std::string&) override { CHECK(false); }
  int32_t num_running = 0;
};

AddRequest request_of(int64_t id) {
  AddRequest request;
  request.id = RequestId(id);
  SplitMix64 random(static_cast<uint64_t>(id));
  for (int i = 0; i < kPromptTokens; ++i) {
    request.prompt.push_back(static_cast<TokenId>(random.below(kVocabSize)));
  }
  request.sampling.temperature = 0.0f;
  request.sampling.max_tokens = 512;
  request.sampling.ignore_eos = true;
  return request;
}

/// An engine's step, all but the model: schedule, blocks, apply tokens, publish.
void count_steps(const std::string& name, int64_t num_running, int64_t num_waiting) {
  EngineInfo info;
  info.max_model_len = 1024;
  info.max_num_seqs = num_running;
  info.max_num_batched_tokens = 8192;
  info.block_size = 16;
  info.num_blocks = num_running * 16 + 1;  // 256 tokens each
  info.prefix_caching_hash_algo = "sha256_cbor";
  info.vocab_size = kVocabSize;
  config::EngineConfig config;
  config.model.seed = 7;
  config.model.user_specified_seed = true;
  ManualClock clock;
  DroppingSink sink;
  EngineCore engine(config, info, std::make_unique<InstantRunner>(), clock, sink);
  for (int64_t id = 0; id < num_running + num_waiting; ++id) {
    CHECK(engine.submit(request_of(id)).ok());
  }
  const auto steps = [&](int num) {
    for (int i = 0; i < num; ++i) CHECK(engine.step().value());
  };
  while (sink.num_running < num_running) steps(1);
  count(name, "step", kCountedSteps, [&] { steps(kCountedSteps); });
  CHECK_EQ(sink.num_running, num_running);
}

void count_sampler(const std::string& name, const SamplingParams& params) {
  constexpr int kRows = 4;
  std::vector<float> logits(kRows * kVocabSize);
  const SamplingState state(params, {}, -1, /*seed=*/1, nullptr);
  SamplerScratch scratch;
  const auto prepare = [&] {
    SplitMix64 random(3);
    for (float& x : logits) {
      // Four uniforms: as peaked as a normal distribution, which logits resemble.
      x = 4.0f * (random.uniform() + random.uniform() + random.uniform() + random.uniform() - 2.0f);
    }
  };
  count("sampler_" + name, "row", kRows, prepare, [&] {
    for (int row = 0; row < kRows; ++row) {
      const std::span<float> one(&logits[static_cast<size_t>(row * kVocabSize)], kVocabSize);
      CHECK(sample_token(one, state, scratch).error.empty());
    }
  });
}

}  // namespace

void count_engine_paths() {
  count_steps("step_64", 64, 0);
  count_steps("step_1024", 1024, 0);
  count_steps("step_64_with_4000_waiting", 64, 4000);
  SamplingParams params;
  params.temperature = 0.0f;
  count_sampler("greedy", params);
  params.temperature = 0.8f;
  count_sampler("temperature", params);
  params.top_k = 40;
  count_sampler("top_k", params);
  params.top_k = 0;
  params.top_p = 0.9f;
  count_sampler("top_p", params);
  params.top_k = 40;
  params.repetition_penalty = 1.1f;
  params.logprobs = 5;
  count_sampler("everything", params);
}

}  // namespace octavo::gates
