#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "engine/sampling/sampler.h"
#include "engine/testing/step_loop.h"
#include "gate.h"

namespace octavo::gates {
namespace {

using namespace engine;  // a program of its own

constexpr int kCountedSteps = 32;
constexpr int64_t kVocabSize = testing::StepLoop::kVocabSize;

void count_steps(const std::string& name, int64_t num_running, int64_t num_waiting) {
  testing::StepLoop loop(num_running, num_waiting);
  count(name, "step", kCountedSteps, [&] { loop.steps(kCountedSteps); });
  CHECK_EQ(loop.num_running(), num_running);
}

void count_sampler(const std::string& name, const SamplingParams& params) {
  constexpr int kRows = 4;
  std::vector<float> logits(kRows * kVocabSize);
  const SamplingState state(params, {}, -1, /*seed=*/1, nullptr);
  SamplerScratch scratch;
  const auto prepare = [&] {
    SplitMix64 random(3);
    for (float& x : logits) {
      // Four uniforms: as peaked as a normal distribution, which logits resemble.
      x = 4.0f * (random.uniform() + random.uniform() + random.uniform() + random.uniform() - 2.0f);
    }
  };
  count("sampler_" + name, "row", kRows, prepare, [&] {
    for (int row = 0; row < kRows; ++row) {
      const std::span<float> one(&logits[static_cast<size_t>(row * kVocabSize)], kVocabSize);
      CHECK(sample_token(one, state, scratch).error.empty());
    }
  });
}

}  // namespace

void count_engine_paths() {
  count_steps("step_64", 64, 0);
  count_steps("step_1024", 1024, 0);
  count_steps("step_64_with_4000_waiting", 64, 4000);
  SamplingParams params;
  params.temperature = 0.0f;
  count_sampler("greedy", params);
  params.temperature = 0.8f;
  count_sampler("temperature", params);
  params.top_k = 40;
  count_sampler("top_k", params);
  params.top_k = 0;
  params.top_p = 0.9f;
  count_sampler("top_p", params);
  params.top_k = 40;
  params.repetition_penalty = 1.1f;
  params.logprobs = 5;
  count_sampler("everything", params);
}

}  // namespace octavo::gates
