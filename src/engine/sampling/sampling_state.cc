#include "engine/sampling/sampling_state.h"

#include <algorithm>
#include <limits>

namespace octavo::engine {
namespace {
constexpr float kForbidden = -std::numeric_limits<float>::infinity();
// Below this a temperature means greedy, as in vLLM; dividing by it would overflow.
constexpr float kGreedyTemperature = 1e-5f;
}  // namespace

SamplingState::SamplingState(SamplingParams params, std::span<const TokenId> prompt,
                             TokenId eos_token_id, uint64_t seed,
                             std::shared_ptr<TokenConstraint> constraint)
    : params_(std::move(params)), seed_(seed), constraint_(std::move(constraint)) {
  end_tokens_ = params_.stop_token_ids;
  if (eos_token_id >= 0) end_tokens_.push_back(eos_token_id);
  std::ranges::sort(params_.allowed_token_ids);
  for (const auto& word : params_.bad_words) look_back_ = std::max(look_back_, word.size() - 1);
  if (!has_penalties()) return;
  for (const TokenId token : prompt) {
    if (count_index_.try_emplace(token, counts_.size()).second) counts_.push_back({token, 0});
  }
}

bool SamplingState::has_penalties() const {
  return params_.repetition_penalty != 1.0f || params_.presence_penalty != 0.0f ||
         params_.frequency_penalty != 0.0f;
}

bool SamplingState::changes_logits() const {
  return !params_.allowed_token_ids.empty() || constraint_ != nullptr ||
         !params_.bad_words.empty() || num_output_tokens_ < params_.min_tokens ||
         !params_.logit_bias.empty() || has_penalties();
}

bool SamplingState::is_greedy() const {
  return params_.temperature < kGreedyTemperature || params_.top_k == 1;
}

void SamplingState::apply(std::span<float> row, std::vector<uint32_t>& mask_scratch) const {
  const auto is_inside = [&](TokenId token) {
    return token >= 0 && static_cast<size_t>(token) < row.size();
  };
  if (!params_.allowed_token_ids.empty()) apply_allowed(row);
  if (constraint_) {
    mask_scratch.assign((row.size() + 31) / 32, ~0u);
    constraint_->fill_mask(mask_scratch);
    for (size_t i = 0; i < row.size(); ++i) {
      if ((mask_scratch[i / 32] >> (i % 32) & 1) == 0) row[i] = kForbidden;
    }
  }
  apply_bad_words(row);
  if (num_output_tokens_ < params_.min_tokens) {
    for (const TokenId token : end_tokens_) {
      if (is_inside(token)) row[token] = kForbidden;
    }
  }
  for (const auto& [token, bias] : params_.logit_bias) {
    if (is_inside(token)) row[token] += bias;
  }
  if (has_penalties()) apply_penalties(row);
}

void SamplingState::apply_allowed(std::span<float> row) const {
  size_t next = 0;
  for (const TokenId token : params_.allowed_token_ids) {  // ascending
    if (token < 0 || static_cast<size_t>(token) >= row.size()) continue;
    const auto index = static_cast<size_t>(token);
    if (index < next) continue;  // named twice
    std::fill(row.begin() + next, row.begin() + index, kForbidden);
    next = index + 1;
  }
  std::fill(row.begin() + next, row.end(), kForbidden);
}

void SamplingState::apply_bad_words(std::span<float> row) const {
  for (const auto& word : params_.bad_words) {
    const size_t num_before = word.size() - 1;
    if (num_before > tail_.size()) continue;
    const TokenId last = word.back();
    if (last < 0 || static_cast<size_t>(last) >= row.size()) continue;
    if (std::equal(word.begin(), word.end() - 1,
                   tail_.end() - static_cast<ptrdiff_t>(num_before))) {
      row[static_cast<size_t>(last)] = kForbidden;
    }
  }
}

void SamplingState::apply_penalties(std::span<float> row) const {
  for (const auto& [token, in_output] : counts_) {
    if (token < 0 || static_cast<size_t>(token) >= row.size()) continue;
    float& logit = row[token];
    logit = logit > 0.0f ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
    logit -= params_.frequency_penalty * static_cast<float>(in_output);
    if (in_output > 0) logit -= params_.presence_penalty;
  }
}

void SamplingState::accept(TokenId token) {
  ++num_output_tokens_;
  if (constraint_) constraint_->accept(token);
  if (look_back_ > 0) {
    if (tail_.size() == look_back_) tail_.erase(tail_.begin());
    tail_.push_back(token);
  }
  if (!has_penalties()) return;
  const auto [it, is_new] = count_index_.try_emplace(token, counts_.size());
  if (is_new) counts_.push_back({token, 0});
  ++counts_[it->second].in_output;
}

}  // namespace octavo::engine
