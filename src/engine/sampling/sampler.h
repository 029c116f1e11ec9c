#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "engine/sampling/candidates.h"
#include "engine/sampling/sampling_state.h"
#include "kernels/logits/logits.h"

namespace octavo::engine {

/// Memory one thread needs while it samples; grows to the vocabulary once.
struct SamplerScratch {
  std::vector<float> raw;      // the row before masks and penalties, for logprobs
  std::vector<float> weights;  // unnormalised probabilities
  std::vector<double> sums;    // of chunks of the weights
  std::vector<Candidate> candidates;
  CandidateScratch search;
  std::vector<uint32_t> mask;
  /// Bytes per thread for a vocabulary, for the memory plan.
  static size_t bytes(int64_t vocab_size) { return static_cast<size_t>(vocab_size) * 20; }
};

enum class Norm : uint8_t { kLogSoftmax, kNone };

/// Logprob of `token` and of the `num_top` best (-1 = all), from a row of logits; with Norm::kNone
/// the logits themselves. The rank of `token` is the number of logits that are not smaller. The row
/// must be valid (kernels::scan_logits).
TokenLogprobs token_logprobs(std::span<const float> row, TokenId token, int32_t num_top,
                             SamplerScratch& scratch, Norm norm = Norm::kLogSoftmax);

struct SampledToken {
  TokenId token = -1;
  std::optional<TokenLogprobs> logprobs = {};
  std::string error = {};  // not empty: the logits are unusable
};

/// Chooses the next token of a sequence from its row of logits, which it may overwrite. Steps, as
/// vLLM V1's sampler: raw logprobs, masks and bias and penalties, then the largest logit (greedy)
/// or temperature, min_p, top_k, top_p and a draw. Random numbers are a function of the sequence's
/// seed and the output position alone. Ties: the lowest id, also at the edges of top_k and top_p,
/// so that top_k = 1 is greedy.
SampledToken sample_token(std::span<float> row, const SamplingState& state,
                          SamplerScratch& scratch);

/// What `sample_token` chooses for a sequence that needs_only_largest(), from the scan of its row.
SampledToken largest_token(const kernels::LogitsScan& scan);

/// Makes of a row what `draw_token` chose from: logits over the temperature, those that min_p,
/// top_k and top_p drop are -inf. Uses what the draw left in `scratch`, so it comes right after it.
void keep_drawn_from(std::span<float> row, const SamplingParams& params,
                     const SamplerScratch& scratch);

/// The draw alone, exposed for tests: `uniform` in (0, 1).
TokenId draw_token(std::span<const float> row, const kernels::LogitsScan& scan,
                   const SamplingParams& params, double uniform, SamplerScratch& scratch);

/// Uniform in (0, 1) with 53 bits, of a seed and a position.
double uniform_at(uint64_t seed, int32_t position);

}  // namespace octavo::engine
