#include "engine/sampling/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace octavo::engine {
namespace {

constexpr size_t kSumChunk = 64;

float log_sum_exp(std::span<const float> row, float max) {
  return max + static_cast<float>(std::log(kernels::sum_exp_logits(row, max)));
}

/// First index at which the running sum of weights exceeds `target`; the last one with weight if
/// rounding lets the sum fall short.
template <class WeightOf>
size_t find_by_weight(size_t count, double target, WeightOf weight_of) {
  double sum = 0.0;
  size_t last = 0;
  for (size_t i = 0; i < count; ++i) {
    const double weight = weight_of(i);
    if (weight <= 0.0) continue;
    sum += weight;
    last = i;
    if (sum > target) break;
  }
  return last;
}

/// In eight lanes, each in order of id.
double sum_of(std::span<const float> weights) {
  std::array<double, 8> lanes{};
  size_t i = 0;
  for (; i + lanes.size() <= weights.size(); i += lanes.size()) {
    for (size_t lane = 0; lane < lanes.size(); ++lane) lanes[lane] += weights[i + lane];
  }
  for (; i < weights.size(); ++i) lanes[0] += weights[i];
  double total = 0.0;
  for (const double sum : lanes) total += sum;
  return total;
}

/// Draws from all weights in order of id: chunk sums first, then inside one chunk.
TokenId draw_from_weights(std::span<const float> weights, double uniform,
                          std::vector<double>& sums) {
  sums.clear();
  double total = 0.0;
  for (size_t begin = 0; begin < weights.size(); begin += kSumChunk) {
    const size_t end = std::min(begin + kSumChunk, weights.size());
    sums.push_back(sum_of(weights.subspan(begin, end - begin)));
    total += sums.back();
  }
  double target = uniform * total;
  size_t chunk = 0;
  size_t last_with_weight = 0;
  for (; chunk < sums.size(); ++chunk) {
    if (sums[chunk] > 0.0) last_with_weight = chunk;
    if (target < sums[chunk]) break;
    target -= sums[chunk];
  }
  chunk = chunk < sums.size() ? chunk : last_with_weight;
  const size_t begin = chunk * kSumChunk;
  const size_t count = std::min(kSumChunk, weights.size() - begin);
  return static_cast<TokenId>(
      begin + find_by_weight(count, target, [&](size_t i) { return weights[begin + i]; }));
}

}  // namespace

double uniform_at(uint64_t seed, int32_t position) {
  const auto bits = philox4x32({static_cast<uint32_t>(position), 0, 0, 0},
                               {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t mantissa = (uint64_t{bits[0]} << 32 | bits[1]) >> 11;
  return (static_cast<double>(mantissa) + 0.5) * 0x1p-53;
}

TokenLogprobs token_logprobs(std::span<const float> row, TokenId token, int32_t num_top,
                             SamplerScratch& scratch, Norm norm) {
  const float shift = norm == Norm::kNone ? 0.0f : log_sum_exp(row, kernels::scan_logits(row).max);
  TokenLogprobs out;
  out.chosen = {token, row[token] - shift, kernels::count_at_least(row, row[token])};
  const int64_t count = num_top < 0 ? static_cast<int64_t>(row.size()) : num_top;
  largest_of_row(row, count, scratch.search, scratch.candidates);
  out.top.reserve(scratch.candidates.size());
  for (const Candidate& candidate : scratch.candidates) {
    out.top.push_back(
        {candidate.token, candidate.value - shift, static_cast<int32_t>(out.top.size()) + 1});
  }
  return out;
}

namespace {
bool truncates(const SamplingParams& params, size_t vocab_size) {
  return params.top_p < 1.0f ||
         (params.top_k > 0 && static_cast<size_t>(params.top_k) < vocab_size);
}
}  // namespace

void keep_drawn_from(std::span<float> row, const SamplingParams& params,
                     const SamplerScratch& scratch) {
  constexpr float kDropped = -std::numeric_limits<float>::infinity();
  const float inverse_temperature = 1.0f / params.temperature;
  if (!truncates(params, row.size())) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool kept = params.min_p <= 0.0f || scratch.weights[i] > 0.0f;
      row[i] = kept ? row[i] * inverse_temperature : kDropped;
    }
    return;
  }
  std::vector<float> kept(scratch.candidates.size());
  for (size_t i = 0; i < kept.size(); ++i) {
    const Candidate& candidate = scratch.candidates[i];
    kept[i] = candidate.value > 0.0f
                  ? row[static_cast<size_t>(candidate.token)] * inverse_temperature
                  : kDropped;
  }
  std::ranges::fill(row, kDropped);
  for (size_t i = 0; i < kept.size(); ++i) {
    row[static_cast<size_t>(scratch.candidates[i].token)] = kept[i];
  }
}

TokenId draw_token(std::span<const float> row, const kernels::LogitsScan& scan,
                   const SamplingParams& params, double uniform, SamplerScratch& scratch) {
  const float inverse_temperature = 1.0f / params.temperature;
  const bool has_top_p = params.top_p < 1.0f;
  auto& candidates = scratch.candidates;
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < row.size()) {
    largest_of_row(row, params.top_k, scratch.search, candidates);
    double total = 0.0;
    for (Candidate& candidate : candidates) {
      float weight;
      kernels::exp_logits({&candidate.value, 1}, scan.max, inverse_temperature, {&weight, 1});
      candidate.value = weight >= params.min_p ? weight : 0.0f;
      total += candidate.value;
    }
    if (has_top_p) {
      cut_to_head(candidates, static_cast<double>(params.top_p) * total);
    }
  } else {
    scratch.weights.resize(row.size());
    double total = kernels::exp_logits(row, scan.max, inverse_temperature, scratch.weights);
    if (params.min_p > 0.0f) {
      for (float& weight : scratch.weights) weight = weight >= params.min_p ? weight : 0.0f;
      total = sum_of(scratch.weights);
    }
    if (!has_top_p) return draw_from_weights(scratch.weights, uniform, scratch.sums);
    find_nucleus(scratch.weights, static_cast<double>(params.top_p) * total, scratch.search,
                 candidates);
  }
  double total = 0.0;
  for (const Candidate& candidate : candidates) total += candidate.value;
  return candidates[find_by_weight(candidates.size(), uniform * total,
                                   [&](size_t i) { return candidates[i].value; })]
      .token;
}

SampledToken largest_token(const kernels::LogitsScan& scan) {
  if (!scan.is_valid) return {.error = "the model produced logits that are not numbers"};
  return {.token = scan.argmax};
}

SampledToken sample_token(std::span<float> row, const SamplingState& state,
                          SamplerScratch& scratch) {
  kernels::LogitsScan scan = kernels::scan_logits(row);
  if (!scan.is_valid) return largest_token(scan);
  const SamplingParams& params = state.params();
  const bool is_raw = params.logprobs_mode == LogprobsMode::kRawLogprobs ||
                      params.logprobs_mode == LogprobsMode::kRawLogits;
  std::span<const float> reported = row;
  if (state.changes_logits()) {
    if (params.logprobs && is_raw) {
      scratch.raw.assign(row.begin(), row.end());
      reported = scratch.raw;
    }
    state.apply(row, scratch.mask);
    scan = kernels::scan_logits(row);
    if (!scan.is_valid) return {.error = "the request's constraints leave no token to choose"};
  }
  SampledToken out;
  out.token = scan.argmax;
  if (!state.is_greedy()) {
    const double uniform = uniform_at(state.seed(), state.num_output_tokens());
    out.token = draw_token(row, scan, params, uniform, scratch);
    if (params.logprobs && !is_raw) keep_drawn_from(row, params, scratch);
  }
  if (params.logprobs) {
    const bool is_logits = params.logprobs_mode == LogprobsMode::kRawLogits ||
                           params.logprobs_mode == LogprobsMode::kProcessedLogits;
    out.logprobs = token_logprobs(reported, out.token, *params.logprobs, scratch,
                                  is_logits ? Norm::kNone : Norm::kLogSoftmax);
  }
  return out;
}

}  // namespace octavo::engine
