#include "engine/sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/random.h"

namespace octavo::engine {
namespace {

using ::testing::ElementsAre;
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> random_row(uint64_t seed, size_t size, float scale = 10.0f) {
  SplitMix64 random(seed);
  std::vector<float> row(size);
  for (float& x : row) x = (random.uniform() - 0.5f) * scale;
  return row;
}

SamplingState state_of(SamplingParams params, std::vector<TokenId> prompt = {}, TokenId eos = -1,
                       uint64_t seed = 1) {
  return SamplingState(std::move(params), prompt, eos, seed, nullptr);
}

SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0.0f;
  return params;
}

SampledToken sample(std::vector<float> row, const SamplingState& state) {
  SamplerScratch scratch;
  return sample_token(row, state, scratch);
}

/// Tokens that `params` can reach, found by sweeping the uniform number.
std::vector<TokenId> support(const std::vector<float>& row, const SamplingParams& params) {
  SamplerScratch scratch;
  std::map<TokenId, int> seen;
  for (int i = 0; i < 4000; ++i) {
    ++seen[draw_token(row, kernels::scan_logits(row), params, (i + 0.5) / 4000, scratch)];
  }
  std::vector<TokenId> out;
  for (const auto& [token, count] : seen) out.push_back(token);
  return out;
}

TEST(Candidates, LargestAgreesWithASortAlsoAmongEquals) {
  auto row = random_row(3, 3000);
  for (float& x : row) x = std::round(x);  // many ties
  std::vector<Candidate> all;
  for (size_t i = 0; i < row.size(); ++i) all.push_back({row[i], static_cast<TokenId>(i)});
  std::ranges::stable_sort(all, [](auto& a, auto& b) { return a.value > b.value; });
  std::vector<Candidate> found;
  CandidateScratch scratch;
  for (const int k : {0, 1, 2, 17, 46, 47, 48, 500, 2999, 3000, 9999}) {
    largest_of_row(row, k, scratch, found);
    ASSERT_EQ(found.size(), std::min<size_t>(k, row.size()));
    for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i].token, all[i].token) << k;
  }
}

TEST(Sampler, GreedyTakesTheLowestIdAmongEquals) {
  EXPECT_EQ(sample({1, 3, 2, 3}, state_of(greedy())).token, 1);
}

TEST(Sampler, TopKOfOneAndTinyTemperatureAreGreedy) {
  const auto row = random_row(5, 1000);
  const TokenId best = kernels::scan_logits(row).argmax;
  SamplingParams params;
  params.top_k = 1;
  EXPECT_EQ(sample(row, state_of(params)).token, best);
  params.top_k = 0;
  params.temperature = 1e-6f;
  EXPECT_EQ(sample(row, state_of(params)).token, best);
}

TEST(Sampler, TopKKeepsExactlyK) {
  SamplingParams params;
  params.top_k = 2;
  EXPECT_THAT(support({1, 2, 2, 2, 0}, params), ElementsAre(1, 2));
  params.top_k = 100;
  EXPECT_EQ(support({1, 2, 2, 2, 0}, params).size(), 5u);
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesP) {
  const std::vector<float> row = {std::log(0.2f), std::log(0.5f), std::log(0.3f)};
  SamplingParams params;
  params.top_p = 0.4f;
  EXPECT_THAT(support(row, params), ElementsAre(1));
  params.top_p = 0.6f;
  EXPECT_THAT(support(row, params), ElementsAre(1, 2));
  params.top_p = 0.9f;
  EXPECT_THAT(support(row, params), ElementsAre(0, 1, 2));
  params.top_p = 1e-6f;
  EXPECT_THAT(support(row, params), ElementsAre(1));
}

TEST(Sampler, NucleusOfALongTailAgreesWithAFullSort) {
  const auto row = random_row(11, 5000, 6.0f);
  for (const float p : {0.1f, 0.5f, 0.9f, 0.999f}) {
    SamplingParams params;
    params.top_p = p;
    std::vector<float> weights(row.size());
    kernels::exp_logits(row, kernels::scan_logits(row).max, 1.0f, weights);
    std::vector<Candidate> all;
    double total = 0.0;
    for (size_t i = 0; i < row.size(); ++i) {
      all.push_back({weights[i], static_cast<TokenId>(i)});
      total += weights[i];
    }
    std::ranges::sort(all, ranks_before);
    double sum = 0.0;
    size_t count = 0;
    while (sum < static_cast<double>(p) * total) sum += all[count++].value;
    SamplerScratch scratch;
    draw_token(row, kernels::scan_logits(row), params, 0.5, scratch);
    EXPECT_EQ(scratch.candidates.size(), count);
  }
}

TEST(Candidates, NucleusIsTheHeadOfASortWhateverTheShape) {
  // Peaked, broad, flat with ties, and one that all tokens share.
  for (const float scale : {60.0f, 12.0f, 1.0f, 0.0f}) {
    for (const size_t size : {3u, 900u, 1024u, 5000u}) {
      std::vector<float> row = random_row(size, size, scale);
      if (scale == 1.0f) {
        for (float& x : row) x = std::round(x * 8) / 8;
      }
      std::vector<float> weights(row.size());
      const float max = kernels::scan_logits(row).max;
      const double total = kernels::exp_logits(row, max, 1.0f, weights);
      std::vector<Candidate> all;
      for (size_t i = 0; i < row.size(); ++i) {
        if (weights[i] > 0) all.push_back({weights[i], static_cast<TokenId>(i)});
      }
      std::ranges::sort(all, ranks_before);
      for (const double p : {1e-9, 0.2, 0.5, 0.97, 1.0, 1.1}) {
        std::vector<Candidate> expected;
        double sum = 0;
        for (const Candidate& candidate : all) {
          if (sum >= p * total) break;
          sum += candidate.value;
          expected.push_back(candidate);
        }
        CandidateScratch scratch;
        std::vector<Candidate> found;
        find_nucleus(weights, p * total, scratch, found);
        if (p == 1.0) continue;  // rounding may decide about the last ones; it must only end
        std::ranges::sort(found, ranks_before);
        ASSERT_EQ(found.size(), expected.size()) << scale << " " << size << " " << p;
        for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i].token, expected[i].token);
      }
    }
  }
}

TEST(Sampler, MinPIsRelativeToTheBest) {
  const std::vector<float> row = {std::log(0.6f), std::log(0.3f), std::log(0.1f)};
  SamplingParams params;
  params.min_p = 0.4f;
  EXPECT_THAT(support(row, params), ElementsAre(0, 1));
  params.top_k = 2;
  params.min_p = 0.6f;
  EXPECT_THAT(support(row, params), ElementsAre(0));
}

TEST(Sampler, FrequenciesFollowTheProbabilities) {
  const std::vector<float> row = {std::log(0.1f), std::log(0.6f), std::log(0.3f)};
  for (const float top_p : {1.0f, 0.9999f}) {
    SamplingParams params;
    params.top_p = top_p;
    std::vector<int> counts(3);
    for (uint64_t seed = 0; seed < 20000; ++seed) {
      ++counts[sample(row, state_of(params, {}, -1, seed)).token];
    }
    EXPECT_NEAR(counts[0] / 20000.0, 0.1, 0.01);
    EXPECT_NEAR(counts[1] / 20000.0, 0.6, 0.015);
    EXPECT_NEAR(counts[2] / 20000.0, 0.3, 0.015);
  }
}

TEST(Sampler, DrawDependsOnSeedAndPositionAlone) {
  EXPECT_EQ(uniform_at(1, 2), uniform_at(1, 2));
  EXPECT_NE(uniform_at(1, 2), uniform_at(1, 3));
  EXPECT_NE(uniform_at(1, 2), uniform_at(2, 2));
  EXPECT_NE(uniform_at(1, 2), uniform_at(uint64_t{1} << 40 | 1, 2));
  for (int i = 0; i < 1000; ++i) {
    EXPECT_GT(uniform_at(9, i), 0.0);
    EXPECT_LT(uniform_at(9, i), 1.0);
  }
}

TEST(Sampler, LastPositionOfTheDistributionIsReachable) {
  const auto row = random_row(2, 1000);
  SamplerScratch scratch;
  SamplingParams params;
  EXPECT_EQ(draw_token(row, kernels::scan_logits(row), params, 1e-17, scratch), 0);
  EXPECT_EQ(draw_token(row, kernels::scan_logits(row), params, 1.0 - 1e-16, scratch), 999);
}

TEST(Sampler, PenaltiesApplyInTheRightOrder) {
  SamplingParams params = greedy();
  params.repetition_penalty = 2.0f;
  params.frequency_penalty = 0.5f;
  params.presence_penalty = 0.25f;
  SamplingState state = state_of(params, {0, 0});
  state.accept(1);
  state.accept(1);
  std::vector<float> row = {4.0f, -2.0f, 3.0f};
  std::vector<uint32_t> mask;
  state.apply(row, mask);
  // 0: in the prompt only. 1: twice in the output, negative logit. 2: never seen.
  EXPECT_THAT(row, ElementsAre(2.0f, -4.0f - 1.0f - 0.25f, 3.0f));
}

TEST(Sampler, BiasComesBeforePenalties) {
  SamplingParams params = greedy();
  params.repetition_penalty = 2.0f;
  params.logit_bias = {{0, 6.0f}, {99, 5.0f}};
  SamplingState state = state_of(params, {0});
  std::vector<float> row = {-2.0f, 1.0f};
  std::vector<uint32_t> mask;
  state.apply(row, mask);
  EXPECT_THAT(row, ElementsAre(2.0f, 1.0f));
}

TEST(Sampler, MinTokensMasksEveryEndToken) {
  SamplingParams params = greedy();
  params.min_tokens = 1;
  params.stop_token_ids = {2, 1000};
  SamplingState state = state_of(params, {}, 1);
  const std::vector<float> row = {0, 5, 4};
  EXPECT_EQ(sample(row, state).token, 0);
  state.accept(0);
  EXPECT_EQ(sample(row, state).token, 1);
}

TEST(Sampler, AllowedTokensExcludeAllOthers) {
  SamplingParams params = greedy();
  params.allowed_token_ids = {3, 1, 1, -5, 70};
  EXPECT_EQ(sample({9, 1, 8, 2, 7}, state_of(params)).token, 3);
  params.min_tokens = 1;
  params.stop_token_ids = {1, 3};
  EXPECT_FALSE(sample({9, 1, 8, 2, 7}, state_of(params)).error.empty());
}

TEST(Sampler, ConstraintMasksAndIsToldOfEveryToken) {
  struct Odd final : TokenConstraint {
    void fill_mask(std::vector<uint32_t>& mask) override {
      for (uint32_t& word : mask) word &= 0xAAAAAAAAu;
    }
    void accept(TokenId token) override { last = token; }
    void rollback(int) override {}
    TokenId last = -1;
  };
  auto odd = std::make_shared<Odd>();
  SamplingState state(greedy(), {}, -1, 1, odd);
  std::vector<float> row(40, 0.0f);
  row[32] = 5.0f;
  row[33] = 4.0f;
  EXPECT_EQ(sample(row, state).token, 33);
  state.accept(33);
  EXPECT_EQ(odd->last, 33);
}

TEST(Sampler, LogprobsAreRawAndRanked) {
  SamplingParams params = greedy();
  params.logprobs = 2;
  params.logit_bias = {{0, 100.0f}};
  const std::vector<float> row = {std::log(0.1f), std::log(0.6f), std::log(0.3f)};
  const SampledToken sampled = sample(row, state_of(params));
  EXPECT_EQ(sampled.token, 0);
  ASSERT_TRUE(sampled.logprobs);
  EXPECT_EQ(sampled.logprobs->chosen.token, 0);
  EXPECT_NEAR(sampled.logprobs->chosen.logprob, std::log(0.1), 1e-6);
  EXPECT_EQ(sampled.logprobs->chosen.rank, 3);
  ASSERT_EQ(sampled.logprobs->top.size(), 2u);
  EXPECT_EQ(sampled.logprobs->top[0].token, 1);
  EXPECT_EQ(sampled.logprobs->top[0].rank, 1);
  EXPECT_EQ(sampled.logprobs->top[1].token, 2);
}

TEST(Sampler, LogprobsOfZeroGiveTheChosenOnlyAndMinusOneAll) {
  SamplingParams params = greedy();
  params.logprobs = 0;
  EXPECT_TRUE(sample({1, 2, 3}, state_of(params)).logprobs->top.empty());
  params.logprobs = -1;
  EXPECT_EQ(sample({1, 2, 3}, state_of(params)).logprobs->top.size(), 3u);
}

TEST(Sampler, LogprobsOfHugeLogitsStayFinite) {
  SamplingParams params = greedy();
  params.logprobs = 1;
  const auto sampled = sample({3e38f, -3e38f, 1.0f}, state_of(params));
  EXPECT_EQ(sampled.logprobs->chosen.logprob, 0.0f);
}

TEST(SampleToken, BadWordsForbidTheLastTokenBehindTheOthers) {
  SamplingParams params = greedy();
  params.bad_words = {{2}, {3, 1}, {0, 3, 0}};
  SamplingState state = state_of(params, {3, 3});  // the prompt does not count
  const std::vector<float> row{1.0f, 5.0f, 9.0f, 4.0f};
  EXPECT_EQ(sample(row, state).token, 1);  // 2 never
  state.accept(0);
  EXPECT_EQ(sample(row, state).token, 1);
  state.accept(3);
  EXPECT_EQ(sample(row, state).token, 3);                       // 1 not behind 3
  EXPECT_EQ(sample({8.0f, 5.0f, 9.0f, 4.0f}, state).token, 3);  // 0 not behind 0, 3
  state.accept(3);
  EXPECT_EQ(sample({8.0f, 5.0f, 9.0f, 4.0f}, state).token, 0);  // now it is behind 3, 3
}

TEST(SampleToken, LogprobsModesReportWhatTheyAreNamedFor) {
  SamplingParams params;
  params.temperature = 0.5f;
  params.top_k = 2;
  params.logprobs = 4;
  params.logit_bias = {{0, 3.0f}};
  params.seed = 1;
  const std::vector<float> row{1.0f, 2.0f, 3.0f, 0.0f};  // with the bias: 4, 2, 3, 0
  const auto logprobs = [&](LogprobsMode mode) {
    params.logprobs_mode = mode;
    std::vector<float> out(row.size());
    const SampledToken sampled = sample(row, state_of(params));
    for (const auto& entry : sampled.logprobs->top) {
      out[static_cast<size_t>(entry.token)] = entry.logprob;
    }
    return out;
  };
  EXPECT_EQ(logprobs(LogprobsMode::kRawLogits), row);
  const float norm = std::log(std::exp(1.0f) + std::exp(2.0f) + std::exp(3.0f) + 1.0f);
  const auto raw = logprobs(LogprobsMode::kRawLogprobs);
  for (size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(raw[i], row[i] - norm, 1e-5);
  EXPECT_THAT(logprobs(LogprobsMode::kProcessedLogits), ElementsAre(8.0f, -kInf, 6.0f, -kInf));
  const float processed_norm = std::log(std::exp(8.0f) + std::exp(6.0f));
  const auto processed = logprobs(LogprobsMode::kProcessedLogprobs);
  EXPECT_NEAR(processed[0], 8.0f - processed_norm, 1e-5);
  EXPECT_NEAR(processed[2], 6.0f - processed_norm, 1e-5);
  EXPECT_EQ(processed[1], -kInf);
  params.top_k = 0;  // without truncation, and with min_p alone
  EXPECT_THAT(logprobs(LogprobsMode::kProcessedLogits), ElementsAre(8.0f, 4.0f, 6.0f, 0.0f));
  params.min_p = 0.1f;
  EXPECT_THAT(logprobs(LogprobsMode::kProcessedLogits), ElementsAre(8.0f, -kInf, 6.0f, -kInf));
  params.temperature = 0.0f;  // greedy: no temperature, no truncation
  EXPECT_THAT(logprobs(LogprobsMode::kProcessedLogits), ElementsAre(4.0f, 2.0f, 3.0f, 0.0f));
}

}  // namespace
}  // namespace octavo::engine
