#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/engine_core.h"
#include "engine/runner/decoder_runner.h"
#include "engine/testing/deferred_runner.h"
#include "engine/testing/fake_model.h"

namespace octavo::engine::testing {

/// All that an engine said about one request.
struct Collected {
  std::vector<TokenId> token_ids;
  std::vector<TokenLogprobs> logprobs;
  std::vector<std::optional<TokenLogprobs>> prompt_logprobs;
  std::optional<FinishReason> finish_reason;
  SequenceOutput last;
};

class CollectingSink final : public OutputSink {
 public:
  void publish(StepOutput output) override {
    for (SequenceOutput& part : output.outputs) {
      Collected& all = requests[part.id.value()];
      CHECK(!all.finish_reason);  // nothing comes after the end
      all.token_ids.insert(all.token_ids.end(), part.new_token_ids.begin(),
                           part.new_token_ids.end());
      for (auto& entry : part.logprobs) all.logprobs.push_back(entry);
      if (!part.prompt_logprobs.empty()) {
        CHECK(all.prompt_logprobs.empty());
        all.prompt_logprobs = part.prompt_logprobs;
      }
      all.finish_reason = part.finish_reason;
      all.last = part;
    }
    last = std::move(output);
    ++num_published;
  }
  void engine_died(const std::string& reason) override { deaths.push_back(reason); }

  std::map<int64_t, Collected> requests;
  StepOutput last;
  int num_published = 0;
  std::vector<std::string> deaths;
};

struct HarnessOptions {
  int64_t num_blocks = 65;
  int64_t block_size = 4;
  int64_t max_num_batched_tokens = 64;
  int64_t max_num_seqs = 8;
  int64_t max_model_len = 128;
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;
  int num_threads = 1;
  int num_inflight_steps = 1;
  config::EngineConfig config = {};
  /// Makes another model than the fake one, of its vocabulary.
  std::function<std::unique_ptr<model::Model>(const kernels::KernelContext&)> make_model = {};
};

/// A real engine over the fake model, on a clock that stands still.
struct Harness {
  explicit Harness(const HarnessOptions& options = {}) {
    auto pool = std::make_unique<device::ThreadPool>(options.num_threads);
    auto workspace = std::make_unique<device::Workspace>();
    const kernels::KernelContext ctx{*pool, *workspace};
    const int64_t max_logits_rows = options.max_num_seqs + kMaxPromptLogprobRows;
    std::unique_ptr<model::Model> owned;
    if (options.make_model) {
      owned = options.make_model(ctx);
    } else {
      auto fake = std::make_unique<FakeModel>();
      model = fake.get();
      owned = std::move(fake);
    }
    CHECK(owned->allocate_kv(options.num_blocks, options.block_size).ok());
    CHECK(owned
              ->reserve(ctx, options.max_num_batched_tokens, options.max_num_seqs, max_logits_rows,
                        options.max_model_len)
              .ok());
    EngineInfo info;
    info.max_model_len = options.max_model_len;
    info.max_num_seqs = options.max_num_seqs;
    info.max_num_batched_tokens = options.max_num_batched_tokens;
    info.block_size = options.block_size;
    info.num_blocks = options.num_blocks;
    info.enable_prefix_caching = options.enable_prefix_caching;
    info.enable_chunked_prefill = options.enable_chunked_prefill;
    info.prefix_caching_hash_algo = "sha256_cbor";
    info.vocab_size = FakeModel::kVocabSize;
    std::unique_ptr<ModelRunner> runner =
        DecoderRunner::create(
            RunnerOptions{options.block_size, options.max_num_batched_tokens, max_logits_rows},
            std::move(owned), std::move(pool), std::move(workspace))
            .value();
    if (options.num_inflight_steps > 1) {
      auto owner = std::make_unique<DeferredRunner>(std::move(runner), options.num_inflight_steps);
      deferred = owner.get();
      runner = std::move(owner);
    }
    config::EngineConfig config = options.config;
    if (!config.model.user_specified_seed) config.model.seed = 7;
    config.model.user_specified_seed = true;
    engine = std::make_unique<EngineCore>(config, info, std::move(runner), clock, sink);
  }

  Status add(AddRequest request) { return engine->submit(std::move(request)); }
  void abort(int64_t id, bool want_output = false, FinishReason reason = FinishReason::kAbort) {
    CHECK(engine->submit(AbortRequest{RequestId(id), reason, want_output}).ok());
  }
  bool step() {
    const auto result = engine->step();
    CHECK(result.ok());
    engine->scheduler().check_invariants();
    return *result;
  }
  /// Steps until nothing is left; false if that takes more than `limit` steps.
  bool run(int limit = 5000) {
    for (int i = 0; i < limit; ++i) {
      step();
      if (engine->num_unfinished() == 0) return true;
    }
    return false;
  }
  Collected& of(int64_t id) { return sink.requests[id]; }

  ManualClock clock;
  CollectingSink sink;
  FakeModel* model = nullptr;          // unless another was made
  DeferredRunner* deferred = nullptr;  // with several steps in flight
  std::unique_ptr<EngineCore> engine;
};

inline std::vector<TokenId> prompt_of(uint64_t seed, int length) {
  SplitMix64 random(seed);
  std::vector<TokenId> out;
  for (int i = 0; i < length; ++i) {
    out.push_back(static_cast<TokenId>(random.below(FakeModel::kVocabSize)));
  }
  return out;
}

inline AddRequest greedy_request(int64_t id, std::vector<TokenId> prompt, int max_tokens) {
  AddRequest request;
  request.id = RequestId(id);
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0.0f;
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  return request;
}

}  // namespace octavo::engine::testing
