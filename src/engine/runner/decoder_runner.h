#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "device/memory.h"
#include "device/thread_pool.h"
#include "engine/runner/model_runner.h"
#include "engine/sampling/sampler.h"
#include "kernels/profile.h"
#include "model/model.h"

namespace octavo::engine {

struct RunnerOptions {
  int64_t block_size = 16;
  int64_t max_num_batched_tokens = 512;
  int64_t max_logits_rows = 128 + 64;
  bool profile = false;  // keep a StepProfile and log it at the end
};

/// Runs a decoder: flattens a scheduled batch, asks the model for the logits it needs (one row per
/// sequence that reaches its last known token, one per prompt position with wanted logprobs), and
/// samples the rows on the pool's threads. Of a greedy sequence's row it asks for the largest only.
class DecoderRunner final : public ModelRunner {
 public:
  /// `model` has its KV and activations reserved. Error: the logits cannot be reserved.
  static Result<std::unique_ptr<DecoderRunner>> create(
      const RunnerOptions& options, std::unique_ptr<model::Model> model,
      std::unique_ptr<device::ThreadPool> pool, std::unique_ptr<device::Workspace> workspace);

  ~DecoderRunner() override;
  Status submit(const StepBatch& batch, std::span<const SequenceConstraint> constraints) override;
  Status collect(RunnerOutput& output) override;
  Status warm_up() override;
  kernels::StepProfile* step_profile() override { return profile_.get(); }

  /// Bytes beyond the model's own: logits and sampling scratch.
  static size_t buffer_bytes(int64_t max_logits_rows, int64_t vocab_size, int num_threads);

 private:
  DecoderRunner(const RunnerOptions& options, std::unique_ptr<model::Model> model,
                std::unique_ptr<device::ThreadPool> pool,
                std::unique_ptr<device::Workspace> workspace, device::Buffer logits);
  struct SequenceState {
    std::vector<TokenId> tokens;
    int32_t num_prompt_tokens = 0;
    std::vector<std::vector<BlockId>> blocks;  // [num_kv_groups]
    int32_t adapter_index = -1;
    SamplingState sampling;
    std::vector<std::optional<TokenLogprobs>> prompt_logprobs;
    bool prompt_logprobs_sent = false;
  };
  /// What a row of logits is for.
  struct LogitsRow {
    size_t sequence = 0;           // index in the batch
    int32_t prompt_position = -1;  // of the token to score; -1 = sample
    int32_t logits_index = -1;     // its place in the logits; -1 = only its largest is known
    bool failed = false;           // something was thrown; each thread writes its own rows
  };
  void forget_and_meet(const StepBatch& batch, std::span<const SequenceConstraint> constraints);
  void build_forward_batch(const StepBatch& batch);
  void update_blocks(const StepBatch& batch);
  void fill_block_tables(const StepBatch& batch);
  void add_tokens(const ScheduledSequence& scheduled, const SequenceState& state);
  void add_logits_row(int32_t row, size_t index, int32_t prompt_position, bool only_largest);
  void add_logits_rows(size_t index, const ScheduledSequence& scheduled,
                       const SequenceState& state);
  void process_rows(RunnerOutput& output);
  void process_row(const LogitsRow& wanted, SamplerScratch& scratch, RunnerOutput& output);
  static void take_token(SampledToken sampled, RunnerResult& result);
  void accept_results(const StepBatch& batch, RunnerOutput& output);

  RunnerOptions options_;
  std::unique_ptr<device::ThreadPool> pool_;
  std::optional<device::CallerBinding> binding_;
  std::unique_ptr<device::Workspace> workspace_;
  std::unique_ptr<model::Model> model_;
  int64_t vocab_size_;
  size_t num_kv_groups_;
  std::unordered_map<RequestId, SequenceState> states_;
  const StepBatch* batch_ = nullptr;          // submitted, not collected
  std::vector<SequenceState*> batch_states_;  // of the current batch
  model::ForwardBatch forward_batch_;
  std::vector<LogitsRow> rows_;
  std::vector<size_t> whole_rows_;            // of rows_, those with logits
  std::vector<kernels::LogitsScan> largest_;  // parallel to rows_, or empty: all have logits
  device::Buffer logits_buffer_;
  float* logits_;                        // [max_logits_rows, vocab_size], in the buffer
  std::vector<SamplerScratch> scratch_;  // one per thread
  std::unique_ptr<kernels::StepProfile> profile_;
};

}  // namespace octavo::engine
