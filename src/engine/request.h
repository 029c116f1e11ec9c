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

/// Which values logprobs are: of the model's logits as they came, or of those that the choice was
/// made from (after masks, bias, penalties, temperature and truncation); the logits themselves or
/// their logarithmic softmax. Prompt logprobs are always raw.
enum class LogprobsMode : uint8_t {
  kRawLogprobs,
  kRawLogits,
  kProcessedLogprobs,
  kProcessedLogits
};

/// How to choose tokens. Every value has been checked by `openai/` (ranges as in vLLM); nothing
/// here is invalid. temperature 0 means greedy.
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
  /// Output that must not appear: the last token of each is forbidden after the others. None empty.
  std::vector<std::vector<TokenId>> bad_words;
  std::optional<int32_t> logprobs;         // number of top entries; -1 = the whole vocabulary
  std::optional<int32_t> prompt_logprobs;  // the same for prompt tokens; disables cache reads
  LogprobsMode logprobs_mode = LogprobsMode::kRawLogprobs;
};

/// What the engine shall do with a sequence. kPool belongs to a later issue.
enum class Task : uint8_t { kGenerate, kPool };

enum class FinishReason : uint8_t { kStop, kLength, kAbort, kError, kRepetition };
inline constexpr int kNumFinishReasons = 5;

/// Memory of the lists in `params`, which every sequence gets its own copy of.
inline size_t num_list_bytes(const SamplingParams& params) {
  size_t num_tokens = params.stop_token_ids.size() + params.allowed_token_ids.size();
  for (const auto& word : params.bad_words)
    num_tokens += word.size() + sizeof(std::vector<TokenId>) / sizeof(TokenId);
  return num_tokens * sizeof(TokenId) + params.logit_bias.size() * sizeof(params.logit_bias[0]);
}

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
