#pragma once

#include <memory>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "engine/engine_core.h"

namespace octavo::engine::testing {

/// Every sampling sequence gets a token that depends on its position alone, at once.
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

/// An engine's step, all but the model: schedule, blocks, apply tokens, publish.
class StepLoop {
 public:
  static constexpr int64_t kVocabSize = 49152;

  /// `num_running` sequences of 128 prompt tokens that decode up to `max_tokens`, the others wait.
  StepLoop(int64_t num_running, int64_t num_waiting, int32_t max_tokens = 512) {
    EngineInfo info;
    info.max_model_len = 1024;
    info.max_num_seqs = num_running;
    info.max_num_batched_tokens = 8192;
    info.block_size = 16;
    info.num_blocks = num_running * ((kPromptTokens + max_tokens) / 16 + 1) + 1;
    info.prefix_caching_hash_algo = "sha256_cbor";
    info.vocab_size = kVocabSize;
    config::EngineConfig config;
    config.model.seed = 7;
    config.model.user_specified_seed = true;
    engine_ = std::make_unique<EngineCore>(config, info, std::make_unique<InstantRunner>(), clock_,
                                           sink_);
    for (int64_t id = 0; id < num_running + num_waiting; ++id) {
      CHECK(engine_->submit(request_of(id, max_tokens)).ok());
    }
    while (sink_.num_running < num_running) steps(1);
  }

  void steps(int num) {
    for (int i = 0; i < num; ++i) CHECK(engine_->step().value());
  }
  int32_t num_running() const { return sink_.num_running; }

 private:
  static constexpr int kPromptTokens = 128;

  static AddRequest request_of(int64_t id, int32_t max_tokens) {
    AddRequest request;
    request.id = RequestId(id);
    SplitMix64 random(static_cast<uint64_t>(id));
    for (int i = 0; i < kPromptTokens; ++i) {
      request.prompt.push_back(static_cast<TokenId>(random.below(kVocabSize)));
    }
    request.sampling.temperature = 0.0f;
    request.sampling.max_tokens = max_tokens;
    request.sampling.ignore_eos = true;
    return request;
  }

  ManualClock clock_;
  DroppingSink sink_;
  std::unique_ptr<EngineCore> engine_;
};

}  // namespace octavo::engine::testing
