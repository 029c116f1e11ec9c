#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/message.h"
#include "engine/request.h"

namespace octavo::engine {

/// What sampling has to know about one sequence between steps. Lives with the runner.
class SamplingState {
 public:
  SamplingState(SamplingParams params, std::span<const TokenId> prompt, TokenId eos_token_id,
                uint64_t seed, std::shared_ptr<TokenConstraint> constraint);

  const SamplingParams& params() const { return params_; }
  uint64_t seed() const { return seed_; }
  int32_t num_output_tokens() const { return num_output_tokens_; }
  /// Whether logits are changed before a token is chosen (masks, bias, penalties).
  bool changes_logits() const;
  /// Whether the token is the largest logit after those changes, not a draw.
  bool is_greedy() const;
  /// Whether the largest of the model's logits is all that the next token needs.
  bool needs_only_largest() const { return is_greedy() && !params_.logprobs && !changes_logits(); }

  /// Applies, in vLLM's order: allowed tokens, constraint, bad words, minimum length, bias,
  /// penalties.
  void apply(std::span<float> row, std::vector<uint32_t>& mask_scratch) const;

  /// A token was chosen.
  void accept(TokenId token);

 private:
  struct TokenCount {
    TokenId token;
    int32_t in_output;
  };
  bool has_penalties() const;
  void apply_allowed(std::span<float> row) const;
  void apply_bad_words(std::span<float> row) const;
  void apply_penalties(std::span<float> row) const;

  SamplingParams params_;
  std::vector<TokenId> end_tokens_;  // EOS and stop ids, for min_tokens
  uint64_t seed_;
  std::shared_ptr<TokenConstraint> constraint_;
  int32_t num_output_tokens_ = 0;
  // The newest output tokens, as many as the longest of the bad words can look back.
  size_t look_back_ = 0;
  std::vector<TokenId> tail_;
  // Distinct tokens of prompt and output, in order of first occurrence; kept only for penalties.
  std::vector<TokenCount> counts_;
  std::unordered_map<TokenId, size_t> count_index_;
};

}  // namespace octavo::engine
