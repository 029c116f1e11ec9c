#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "engine/request.h"
#include "engine/token_run.h"

// All that crosses the engine's border: plain structs in both directions.

namespace octavo::engine {

/// 32 bytes of SHA-256 (or the 16 of an xxh128 digest, zero-padded).
using BlockHash = std::array<uint8_t, 32>;

/// A future seam for structured output: fills the mask of allowed tokens before sampling.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  /// Clears bits of tokens that may not come next; `mask` has (vocab_size + 31) / 32 words.
  virtual void fill_mask(std::vector<uint32_t>& mask) = 0;
  virtual void accept(TokenId token) = 0;
  virtual void rollback(int num_tokens) = 0;
};

/// One sequence enters. Everything that grows with the prompt is done before the engine's thread.
struct AddRequest {
  RequestId id;
  Task task = Task::kGenerate;
  std::vector<TokenId> prompt;  // 1 .. max_model_len - 1 tokens, ids checked against the vocabulary
  SamplingParams sampling;
  TokenId eos_token_id = -1;    // the primary EOS; -1 = none
  double arrival_wall_s = 0.0;  // start of prompt rendering
  int64_t priority = 0;
  std::optional<double> deadline_s;  // monotonic; none = no deadline
  std::string cache_salt;            // empty = none
  /// LoRA; -1 = base model. Whoever loads adapters puts the adapter's name into the block hashes.
  int32_t adapter_index = -1;
  std::string tenant;
  std::vector<BlockHash> block_hashes;  // of the prompt's full blocks; `submit` fills them in
  std::shared_ptr<TokenConstraint> constraint;  // none yet
};

/// Harmless if the request has ended. kStop is a stop string found by the output stage: it ends the
/// sequence without another output; kAbort and kError produce a final output with that reason.
struct AbortRequest {
  RequestId id;
  FinishReason reason = FinishReason::kAbort;
  /// False when the sender has already told its client and wants no further output.
  bool want_output = false;
};

/// Control with a reply, executed between steps. Kinds that have no implementation yet answer
/// kUnsupported.
struct ControlRequest {
  enum class Kind { kPause, kResume, kSleep, kWake, kResetPrefixCache, kLoadAdapter, kProfile };
  Kind kind = Kind::kPause;
  std::string argument;
  std::function<void(Status)> reply;  // called on the engine thread; must not block
};

using EngineMessage = std::variant<AddRequest, AbortRequest, ControlRequest>;

/// What one step did for one sequence. Times are monotonic seconds of the engine's clock.
struct SequenceOutput {
  RequestId id;
  TokenRun new_token_ids;
  std::vector<TokenLogprobs> logprobs;  // one per new token when asked for
  /// With the first output when prompt_logprobs was asked for: [0] is empty, then one per token.
  std::vector<std::optional<TokenLogprobs>> prompt_logprobs;
  std::vector<float> pooled;  // of Task::kPool, with kStop
  std::optional<FinishReason> finish_reason;
  StopReason stop_reason;
  std::string error;  // with FinishReason::kError
  // Accounting, as of this output.
  double queued_s = 0.0;
  double first_scheduled_s = 0.0;  // 0 = never scheduled
  int32_t num_prompt_tokens = 0;
  int32_t num_cached_tokens = 0;  // of the first admission
  int32_t num_preemptions = 0;
};

/// The scheduler's figures after a step, finished requests removed (docs/reference/metrics.md).
struct SchedulerStats {
  int32_t num_running = 0;
  int32_t num_waiting = 0;           // waiting queue ("capacity")
  int32_t num_skipped = 0;           // deferred queue ("deferred")
  double kv_cache_usage = 0.0;       // 1 - free / (num_blocks - 1)
  int64_t num_preemptions = 0;       // cumulative, counted when they happen
  int64_t prefix_cache_queries = 0;  // cumulative tokens, first admissions only
  int64_t prefix_cache_hits = 0;
  /// Of this step: (tokens queried, tokens hit) per admission, for the log line's moving window.
  std::vector<std::pair<int32_t, int32_t>> prefix_cache_admissions;
};

/// One step's results, as a whole: the output stage publishes deltas and figures together (P3).
struct StepOutput {
  int64_t step = 0;
  double timestamp_s = 0.0;  // T_core: after the model's output was applied
  SchedulerStats stats;
  std::vector<SequenceOutput> outputs;
  int32_t num_scheduled_tokens = 0;
};

/// Takes what the engine publishes. Called on the engine thread; must be quick (push to a queue).
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  virtual void publish(StepOutput output) = 0;
  /// The engine is dead and will publish nothing more; every open request must be answered.
  virtual void engine_died(const std::string& reason) = 0;
};

}  // namespace octavo::engine
