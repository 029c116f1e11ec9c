#include "engine/scheduler/finish.h"

#include <algorithm>

namespace octavo::engine {

std::optional<Finish> check_finish(const Sequence& sequence, int64_t max_model_len) {
  const TokenId token = sequence.tokens.back();
  const SamplingParams& sampling = sequence.sampling;
  if (!sampling.ignore_eos && token == sequence.eos_token_id) {
    return Finish{FinishReason::kStop, {}};
  }
  if (std::ranges::find(sampling.stop_token_ids, token) != sampling.stop_token_ids.end()) {
    return Finish{FinishReason::kStop, token};
  }
  if (sequence.num_tokens() >= max_model_len ||
      sequence.num_output_tokens() >= sampling.max_tokens) {
    return Finish{FinishReason::kLength, {}};
  }
  return std::nullopt;
}

}  // namespace octavo::engine
