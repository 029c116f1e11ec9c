#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/id.h"

namespace octavo::engine {

using TokenId = int32_t;
/// The engine's own number of a sequence; unique for the life of an engine. The id a client sees is
/// a string that only frontend and openai know.
using RequestId = Id<struct RequestTag, int64_t>;

/// How to choose tokens. Every value has been checked by `openai/` (ranges as
/// in vLLM); nothing here is invalid. temperature 0 means greedy.
struct SamplingParams {
  float temperature = 1.0f;
  float top_p = 1.0f;
  int32_t top_k = 0;  // 0 = off
  float min_p = 0.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  float repetition_penalty = 1.0f;
  std::optional<int64_t> seed;  // none: the engine draws one per request
  int32_t max_tokens = 16;
  int32_t min_tokens = 0;
  bool ignore_eos = false;
  std::vector<TokenId> stop_token_ids;
  std::vector<std::pair<TokenId, float>> logit_bias;  // clamped to +-100
  std::vector<TokenId> allowed_token_ids;             // empty = all
  std::optional<int32_t> logprobs;         // number of top entries; -1 = the whole vocabulary
  std::optional<int32_t> prompt_logprobs;  // the same for prompt tokens; disables cache reads
  /// Raw values before penalties and temperature (vLLM's default `--logprobs-mode raw_logprobs`).
};

/// What the engine shall do with a sequence. kPool belongs to a later issue.
enum class Task : uint8_t { kGenerate, kPool };

enum class FinishReason : uint8_t { kStop, kLength, kAbort, kError, kRepetition };
inline constexpr int kNumFinishReasons = 5;

/// Null for EOS, length and abort; the id for a stop token; the text for a stop string.
using StopReason = std::variant<std::monostate, TokenId, std::string>;

/// Logprob of one position: the chosen (or given) token first, then the top entries by rank.
struct TokenLogprobs {
  struct Entry {
    TokenId token = 0;
    float logprob = 0.0f;
    int32_t rank = 0;  // 1 = most likely
  };
  Entry chosen;
  std::vector<Entry> top;  // ranks 1..k
};

}  // namespace octavo::engine
