#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/kv_cache/kv_cache.h"
#include "engine/message.h"
#include "engine/request.h"

namespace octavo::engine {

/// Where a sequence stands. The waiting-for states lie in the skipped queue until they resolve.
enum class SequenceState : uint8_t {
  kWaiting,
  kWaitingForGrammar,
  kWaitingForRemoteKv,
  kWaitingForInput,
  kRunning,
  kPreempted,
  kFinished,
};

/// A request inside the scheduler. There are no phases: a step closes the gap between
/// `num_computed_tokens` and `num_tokens()` within its limits.
struct Sequence {
  RequestId id;
  SequenceState state = SequenceState::kWaiting;
  Task task = Task::kGenerate;
  SamplingParams sampling;
  TokenId eos_token_id = -1;
  uint64_t seed = 0;
  int64_t priority = 0;
  std::string tenant;          // for a waiting order that shares out among tenants
  int32_t adapter_index = -1;  // -1 = the base model
  double arrival_wall_s = 0.0;
  double queued_s = 0.0;
  std::optional<double> deadline_s;
  std::string cache_salt;
  std::shared_ptr<TokenConstraint> constraint;

  std::vector<TokenId> tokens;  // prompt, then output
  int32_t num_prompt_tokens = 0;
  int32_t num_computed_tokens = 0;      // KV exists or is being computed by the step in flight
  std::vector<BlockHash> block_hashes;  // of the full blocks of `tokens`
  BlockTable block_table;

  double first_scheduled_s = 0.0;  // 0 = never
  int32_t num_cached_tokens = 0;   // of the first admission
  int32_t num_preemptions = 0;
  bool known_to_runner = false;
  int32_t num_inflight_steps = 0;  // submitted with this sequence in them and not collected

  // Links of the waiting queue that holds the sequence, if any.
  Sequence* previous = nullptr;
  Sequence* next = nullptr;
  bool in_skipped = false;

  int32_t num_tokens() const { return static_cast<int32_t>(tokens.size()); }
  int32_t num_output_tokens() const { return num_tokens() - num_prompt_tokens; }
  bool was_admitted() const { return first_scheduled_s != 0.0; }
  /// Prompt logprobs need the logits of every prompt position, so nothing may be taken from the
  /// prefix cache.
  bool reads_prefix_cache() const { return !sampling.prompt_logprobs.has_value(); }
  /// Prompt logprobs still have to be computed: they go out with the first token.
  bool wants_prompt_logprobs() const {
    return sampling.prompt_logprobs.has_value() && num_output_tokens() == 0;
  }
};

}  // namespace octavo::engine
