#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/kv_cache/prefix_index.h"
#include "engine/message.h"
#include "engine/request.h"

// What scheduler and runner tell each other: plain data that another rank could execute. The
// promises behind it are in engine/CONTRACT.md.

namespace octavo::engine {

/// A sequence that the runner has not seen before.
struct NewSequence {
  RequestId id = {};
  std::vector<TokenId> prompt = {};
  SamplingParams sampling = {};
  TokenId eos_token_id = -1;
  uint64_t seed = 0;           // resolved: the request's own or drawn by the engine
  int32_t adapter_index = -1;  // -1 = the base model
  Task task = Task::kGenerate;
};

/// What a step runs of one sequence.
struct ScheduledSequence {
  RequestId id;
  int32_t num_computed_tokens = 0;  // before the step
  int32_t num_tokens = 0;           // to run in this step, >= 1
  /// Whether the last known token is among them, so that the step yields a new one.
  bool samples = false;
};

/// Range of StepBatch::block_ids to append to the block table of a scheduled sequence in one KV
/// group, or to replace it with.
struct BlockUpdate {
  RequestId id = {};
  KvGroupId group = 0;
  int32_t first_block = 0;
  int32_t num_blocks = 0;
  bool replaces = false;
};

/// One step's work. The scheduler reuses the object, so a step allocates nothing once warm.
struct StepBatch {
  std::vector<RequestId> ended;  // forget these first
  std::vector<NewSequence> added;
  std::vector<ScheduledSequence> sequences;
  std::vector<BlockUpdate> block_updates;
  std::vector<BlockId> block_ids;
  int32_t num_tokens = 0;  // sum over sequences

  void clear() {
    ended.clear();
    added.clear();
    sequences.clear();
    block_updates.clear();
    block_ids.clear();
    num_tokens = 0;
  }
};

/// What came out of a step for one entry of StepBatch::sequences: tokens, or the vector of a pooled
/// sequence, which is its last result.
struct RunnerResult {
  TokenRun token_ids;                                         // empty unless it sampled
  std::vector<TokenLogprobs> logprobs;                        // one per token when asked for
  std::vector<std::optional<TokenLogprobs>> prompt_logprobs;  // once, when the prompt is done
  std::vector<float> pooled;
  std::string error;  // not empty: this sequence cannot go on
};

/// Parallel to StepBatch::sequences.
struct RunnerOutput {
  std::vector<RunnerResult> results;
};

}  // namespace octavo::engine
