#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "config/config.h"
#include "engine/engine.h"

namespace octavo::engine {

/// What the plan has to know about model and machine.
struct PlanInputs {
  int64_t model_max_model_len = 0;  // derived from the model's config
  int64_t vocab_size = 0;
  size_t kv_block_bytes = 0;          // per block of the configured size, all layers
  size_t weight_bytes = 0;            // resident already
  size_t memory_limit_bytes = 0;      // what the process may use
  size_t available_memory_bytes = 0;  // what is free of it now
  /// Activations, logits and scratch for these limits.
  std::function<size_t(int64_t max_num_batched_tokens, int64_t max_num_seqs, int64_t max_model_len)>
      activation_bytes;
};

/// What of a config is wrong whatever the model. kInvalidArgument names the flag.
Status check_options(const config::EngineConfig& config);

/// Resolves limits (docs/reference/flags.md has the defaults) and computes the memory
/// plan before anything is taken. Fills the numeric fields of EngineInfo; the rest is the model's.
/// Errors are start-up errors: kInvalidArgument names the flag, kOverloaded carries vLLM's
/// phrases.
Result<EngineInfo> plan_engine(const config::EngineConfig& config, const PlanInputs& inputs);

/// Sets kv_cache_size_tokens and kv_cache_max_concurrency from the other fields.
void fill_capacity(EngineInfo& info);

/// vLLM's start-up lines about the scheduler and the KV cache, and the memory plan.
void log_plan(const config::EngineConfig& config, const PlanInputs& inputs, const EngineInfo& info);

/// GiB rounded to two decimals, without padding: "1.5", "0.0".
std::string format_gib(size_t bytes);
/// 1234567 -> "1,234,567".
std::string format_thousands(int64_t value);

}  // namespace octavo::engine
