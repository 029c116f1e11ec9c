#pragma once

#include <optional>

#include "engine/scheduler/sequence.h"

namespace octavo::engine {

struct Finish {
  FinishReason reason = FinishReason::kStop;
  StopReason stop_reason;
};

/// Whether the token just appended ends the sequence. The order of the checks is
/// vLLM's: EOS, stop ids, length. min_tokens needs no check: until then
/// the logits of all end tokens are masked.
std::optional<Finish> check_finish(const Sequence& sequence, int64_t max_model_len);

}  // namespace octavo::engine
