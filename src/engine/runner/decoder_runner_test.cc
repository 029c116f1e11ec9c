#include "engine/runner/decoder_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace octavo::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Keeps the batches it is given; every token is as likely as any other.
class RecordingModel final : public model::Model {
 public:
  explicit RecordingModel(int32_t num_kv_groups) {
    info_.vocab_size = 8;
    info_.num_kv_groups = num_kv_groups;
  }
  const model::ModelInfo& info() const override { return info_; }
  size_t kv_block_bytes(int64_t) const override { return 0; }
  Status allocate_kv(int64_t, int64_t) override { return {}; }
  size_t activation_bytes(int64_t, int64_t, int64_t, int64_t, int) const override { return 0; }
  Status reserve(const kernels::KernelContext&, int64_t, int64_t, int64_t, int64_t) override {
    return {};
  }
  Status forward(const kernels::KernelContext&, const model::ForwardBatch& batch,
                 std::span<float> logits, std::span<kernels::LogitsScan> largest) override {
    last = batch;
    std::ranges::fill(logits, 0.0f);
    std::ranges::fill(largest, kernels::LogitsScan{});
    return {};
  }
  model::ForwardBatch last;

 private:
  model::ModelInfo info_;
};

struct Bench {
  explicit Bench(int32_t num_kv_groups) {
    auto owned = std::make_unique<RecordingModel>(num_kv_groups);
    model = owned.get();
    runner = DecoderRunner::create({.block_size = 4, .max_num_batched_tokens = 64},
                                   std::move(owned), std::make_unique<device::ThreadPool>(1),
                                   std::make_unique<device::Workspace>())
                 .value();
  }
  void run(const StepBatch& batch, std::span<const SequenceConstraint> constraints = {}) {
    RunnerOutput output;
    ASSERT_TRUE(runner->submit(batch, constraints).ok());
    ASSERT_TRUE(runner->collect(output).ok());
    ASSERT_EQ(output.results.size(), batch.sequences.size());
  }
  RecordingModel* model = nullptr;
  std::unique_ptr<DecoderRunner> runner;
};

TEST(DecoderRunner, EveryKvGroupHasItsOwnTablesAndSlots) {
  Bench bench(2);
  const RequestId a(1), b(2);
  StepBatch batch;
  batch.added = {{.id = a, .prompt = {1, 2, 3, 4, 5}}, {.id = b, .prompt = {6, 7}}};
  batch.sequences = {{a, 0, 5, true}, {b, 0, 2, true}};
  batch.block_ids = {10, 11, 20, 21, 12, 22};
  batch.block_updates = {
      {a, 0, 0, 2, true}, {a, 1, 2, 2, true}, {b, 0, 4, 1, true}, {b, 1, 5, 1, true}};
  bench.run(batch);
  EXPECT_EQ(bench.model->last.num_kv_groups, 2);
  EXPECT_EQ(bench.model->last.max_blocks_per_seq, 2);
  EXPECT_THAT(bench.model->last.block_tables, ElementsAre(10, 11, 12, -1, 20, 21, 22, -1));
  EXPECT_THAT(bench.model->last.slot_mapping,
              ElementsAre(40, 41, 42, 43, 44, 48, 49, 80, 81, 82, 83, 84, 88, 89));
  EXPECT_THAT(bench.model->last.row_adapters, IsEmpty());

  // Group 1 gets other blocks, group 0 keeps its own.
  batch.clear();
  batch.sequences = {{a, 5, 1, true}};
  batch.block_ids = {30, 31};
  batch.block_updates = {{a, 1, 0, 2, true}};
  bench.run(batch);
  EXPECT_THAT(bench.model->last.block_tables, ElementsAre(10, 11, 30, 31));
  EXPECT_THAT(bench.model->last.slot_mapping, ElementsAre(45, 125));
}

/// What of its row of logits a sequence of one prompt token asks for in its first step; 1: only the
/// largest.
std::vector<uint8_t> asks_for(const std::vector<SamplingParams>& params,
                              std::shared_ptr<TokenConstraint> constraint = nullptr) {
  Bench bench(1);
  StepBatch batch;
  std::vector<SequenceConstraint> constraints;
  for (size_t i = 0; i < params.size(); ++i) {
    const RequestId id(static_cast<int64_t>(i));
    batch.added.push_back({.id = id, .prompt = {1}, .sampling = params[i]});
    batch.sequences.push_back({id, 0, 1, true});
    batch.block_ids.push_back(static_cast<BlockId>(i));
    batch.block_updates.push_back({id, 0, static_cast<int32_t>(i), 1, true});
    if (constraint) constraints.push_back({id, constraint});
  }
  bench.run(batch, constraints);
  return bench.model->last.only_largest;
}

SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0.0f;
  return params;
}

TEST(DecoderRunner, AGreedySequenceAsksForTheLargestLogitAlone) {
  SamplingParams tiny_temperature, only_one;
  tiny_temperature.temperature = 1e-6f;
  only_one.top_k = 1;
  SamplingParams cut = greedy();
  cut.top_p = 0.5f;
  cut.min_p = 0.5f;
  EXPECT_THAT(asks_for({greedy(), tiny_temperature, only_one, cut}), ElementsAre(1, 1, 1, 1));
}

TEST(DecoderRunner, WhoeverNeedsMoreGetsWholeRows) {
  std::vector<SamplingParams> cases(10, greedy());
  cases[0].temperature = 0.5f;
  cases[1].logprobs = 0;
  cases[2].presence_penalty = 0.5f;
  cases[3].frequency_penalty = 0.5f;
  cases[4].repetition_penalty = 1.5f;
  cases[5].logit_bias = {{3, 1.0f}};
  cases[6].allowed_token_ids = {3};
  cases[7].bad_words = {{3}};
  cases[8].min_tokens = 1;
  cases[9].logprobs = -1;
  for (const SamplingParams& params : cases) {
    EXPECT_THAT(asks_for({params}), IsEmpty());  // the plain product
    EXPECT_THAT(asks_for({greedy(), params, greedy()}), ElementsAre(1, 0, 1));
  }
  struct Anything final : TokenConstraint {
    void fill_mask(std::vector<uint32_t>&) override {}
    void accept(TokenId) override {}
    void rollback(int) override {}
  };
  EXPECT_THAT(asks_for({greedy()}, std::make_shared<Anything>()), IsEmpty());
}

TEST(DecoderRunner, AfterItsLeastNumberOfTokensASequenceIsGreedy) {
  Bench bench(1);
  const RequestId id(1);
  SamplingParams params = greedy();
  params.min_tokens = 1;
  StepBatch batch;
  batch.added = {{.id = id, .prompt = {1, 2}, .sampling = params}};
  batch.sequences = {{id, 0, 2, true}};
  batch.block_ids = {1};
  batch.block_updates = {{id, 0, 0, 1, true}};
  bench.run(batch);
  EXPECT_THAT(bench.model->last.only_largest, IsEmpty());
  batch.clear();
  batch.sequences = {{id, 2, 1, true}};
  bench.run(batch);
  EXPECT_THAT(bench.model->last.only_largest, ElementsAre(1));
}

TEST(DecoderRunner, PromptLogprobsAreWholeRowsBesideAGreedyOne) {
  Bench bench(1);
  const RequestId a(1), b(2);
  SamplingParams params = greedy();
  params.prompt_logprobs = 1;
  StepBatch batch;
  batch.added = {{.id = a, .prompt = {1, 2, 3}, .sampling = params},
                 {.id = b, .prompt = {1, 2}, .sampling = greedy()}};
  batch.sequences = {{a, 0, 3, true}, {b, 0, 1, false}};
  batch.block_ids = {1, 2};
  batch.block_updates = {{a, 0, 0, 1, true}, {b, 0, 1, 1, true}};
  bench.run(batch);
  EXPECT_THAT(bench.model->last.logits_rows, ElementsAre(0, 1, 2));
  EXPECT_THAT(bench.model->last.only_largest, ElementsAre(0, 0, 1));
}

TEST(DecoderRunner, TheAdapterOfASequenceReachesItsRows) {
  Bench bench(1);
  const RequestId a(1), b(2);
  StepBatch batch;
  batch.added = {{.id = a, .prompt = {1, 2}}, {.id = b, .prompt = {3, 4, 5}, .adapter_index = 7}};
  batch.sequences = {{a, 0, 2, true}, {b, 0, 3, true}};
  batch.block_ids = {1, 2};
  batch.block_updates = {{a, 0, 0, 1, true}, {b, 0, 1, 1, true}};
  bench.run(batch);
  EXPECT_THAT(bench.model->last.row_adapters, ElementsAre(-1, -1, 7, 7, 7));
}

}  // namespace
}  // namespace octavo::engine
