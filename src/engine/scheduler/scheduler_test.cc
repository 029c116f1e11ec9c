#include "engine/scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

namespace octavo::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

struct BenchOptions {
  SchedulerOptions scheduler = {
      .max_num_scheduled_tokens = 16, .max_num_seqs = 4, .max_model_len = 64};
  int32_t num_blocks = 33;
  int32_t block_size = 4;
  bool caching = true;
  std::string policy = "fcfs";
};

/// A scheduler whose runner answers every sampled row with a token of the test's choice.
class Bench {
 public:
  explicit Bench(const BenchOptions& options)
      : hasher_(HashAlgorithm::kSha256Cbor, std::nullopt),
        kv_cache({options.num_blocks, options.block_size, options.caching}),
        block_size_(options.block_size),
        scheduler(options.scheduler, std::move(*make_scheduling_policy(options.policy)), kv_cache,
                  hasher_) {}

  Sequence& add(int64_t id, int num_prompt_tokens, int first_token = 0, int64_t priority = 0) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = RequestId(id);
    sequence->tokens.resize(num_prompt_tokens);
    std::iota(sequence->tokens.begin(), sequence->tokens.end(), first_token);
    sequence->num_prompt_tokens = num_prompt_tokens;
    sequence->priority = priority;
    sequence->arrival_wall_s = static_cast<double>(id);
    sequence->sampling.max_tokens = 1000;
    sequence->eos_token_id = 7777;
    hasher_.extend(sequence->block_hashes, sequence->tokens, block_size_, "");
    Sequence& added = *sequence;
    scheduler.add(std::move(sequence));
    return added;
  }
  /// Schedules; (id, tokens) of each entry.
  std::vector<std::pair<int64_t, int32_t>> schedule() {
    scheduler.schedule(++now_s_, batch);
    scheduler.check_invariants();
    std::vector<std::pair<int64_t, int32_t>> out;
    int32_t num_tokens = 0;
    for (const auto& s : batch.sequences) {
      out.emplace_back(s.id.value(), s.num_tokens);
      num_tokens += s.num_tokens;
    }
    EXPECT_EQ(num_tokens, batch.num_tokens);
    return out;
  }
  std::vector<SequenceOutput> update(TokenId token = 5000) {
    RunnerOutput results;
    for (const auto& s : batch.sequences) {
      results.results.emplace_back();
      if (s.samples) results.results.back().token_ids = {token};
    }
    std::vector<SequenceOutput> outputs;
    scheduler.update(batch, results, outputs);
    scheduler.check_invariants();
    return outputs;
  }
  std::vector<std::pair<int64_t, int32_t>> step(TokenId token = 5000) {
    auto out = schedule();
    update(token);
    return out;
  }

 private:
  BlockHasher hasher_;
  double now_s_ = 1.0;

 public:
  KvCache kv_cache;

 private:
  int32_t block_size_;

 public:
  Scheduler scheduler;
  StepBatch batch;
};

TEST(Scheduler, FillsTheBudgetAndContinuesPromptsAheadOfTheQueue) {
  Bench bench({});
  bench.add(1, 10, 0);
  bench.add(2, 20, 100);
  bench.add(3, 4, 200);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 10), Pair(2, 6)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1), Pair(2, 14), Pair(3, 1)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 3)));
}

TEST(Scheduler, OnlyASequenceThatReachesItsEndSamples) {
  Bench bench({});
  bench.add(1, 20);
  bench.schedule();
  EXPECT_FALSE(bench.batch.sequences[0].samples);
  EXPECT_THAT(bench.update(), IsEmpty());
  bench.schedule();
  EXPECT_TRUE(bench.batch.sequences[0].samples);
  EXPECT_EQ(bench.update().size(), 1u);
}

TEST(Scheduler, WithoutChunkedPrefillAPromptThatDoesNotFitWaitsAndBlocksTheQueue) {
  BenchOptions options;
  options.scheduler.enable_chunked_prefill = false;
  Bench bench(options);
  bench.add(1, 10, 0);
  bench.add(2, 10, 100);
  bench.add(3, 2, 200);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 10)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1), Pair(2, 10), Pair(3, 2)));
}

TEST(Scheduler, LongPrefillThresholdCapsEachSequence) {
  BenchOptions options;
  options.scheduler.long_prefill_token_threshold = 5;
  Bench bench(options);
  bench.add(1, 20, 0);
  bench.add(2, 20, 100);
  bench.add(3, 20, 200);
  bench.add(4, 20, 300);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 5), Pair(2, 5), Pair(3, 5), Pair(4, 1)));
}

TEST(Scheduler, SeatsAreLimited) {
  Bench bench({});
  for (int i = 1; i <= 6; ++i) bench.add(i, 2, i * 100);
  EXPECT_EQ(bench.step().size(), 4u);
  EXPECT_EQ(bench.scheduler.num_waiting(), 2);
}

TEST(Scheduler, GateKeepsALongPromptOutUntilAllOfItFits) {
  BenchOptions options;
  options.num_blocks = 9;  // 8 usable: 32 tokens
  Bench bench(options);
  bench.add(1, 14, 0);    // 4 blocks
  bench.add(2, 20, 100);  // 5 blocks: its first chunk would fit, all of it would not
  bench.add(3, 2, 200);   // does not overtake
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 14)));
  options.scheduler.reserve_full_isl = false;
  Bench open(options);
  open.add(1, 14, 0);
  open.add(2, 20, 100);
  EXPECT_THAT(open.step(), ElementsAre(Pair(1, 14), Pair(2, 2)));
}

TEST(Scheduler, WatermarkHoldsBlocksBackOnlyWhileOthersRun) {
  BenchOptions options;
  options.num_blocks = 9;
  options.scheduler.watermark = 0.5;  // 4 blocks
  Bench bench(options);
  bench.add(1, 8, 0);
  bench.add(2, 8, 100);
  bench.add(3, 4, 200);
  // 1: nobody runs. 2: 6 free, needs 2 and leaves 4. 3: would leave 3.
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 8), Pair(2, 8)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1), Pair(2, 1)));
}

TEST(Scheduler, PreemptsTheLastAdmittedAndAdmitsNobodyInThatStep) {
  BenchOptions options;
  options.num_blocks = 6;  // 5 usable
  Bench bench(options);
  bench.add(1, 8, 0);
  bench.add(2, 8, 100);
  EXPECT_EQ(bench.step().size(), 2u);  // 2 + 2 blocks
  bench.add(3, 1, 200);
  // Each needs a third block; one is left. Nobody is admitted, though 3 would fit.
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1)));
  const SchedulerStats stats = bench.scheduler.take_stats();
  EXPECT_EQ(stats.num_preemptions, 1);
  EXPECT_EQ(stats.num_running, 1);
  EXPECT_EQ(stats.num_waiting, 2);
  // 2 is first in the queue, hits what is left of its own blocks and recomputes its output too.
  EXPECT_THAT(bench.schedule(), ElementsAre(Pair(1, 1)));  // 3 blocks needed, 2 free: waits
}

TEST(Scheduler, SeveralVictimsKeepTheirOrder) {
  BenchOptions options;
  options.num_blocks = 5;
  Bench bench(options);
  bench.add(1, 4, 0);
  bench.add(2, 4, 100);
  bench.add(3, 4, 200);
  bench.add(4, 4, 300);
  EXPECT_EQ(bench.step().size(), 4u);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1), Pair(2, 1)));
  ASSERT_EQ(bench.scheduler.num_waiting(), 2);
  bench.scheduler.abort(RequestId(1));
  bench.scheduler.abort(RequestId(2));
  bench.schedule();
  ASSERT_EQ(bench.scheduler.running().size(), 2u);
  EXPECT_EQ(bench.scheduler.running()[0]->id, RequestId(3));
  EXPECT_EQ(bench.scheduler.running()[1]->id, RequestId(4));
}

TEST(Scheduler, ResumedSequenceReusesItsCachedBlocksAndRecomputesOutput) {
  Bench bench({});
  bench.add(1, 9, 0);
  bench.step();
  bench.step();  // 9 prompt + 2 output tokens, 10 computed
  bench.scheduler.preempt_all();
  EXPECT_THAT(bench.schedule(), ElementsAre(Pair(1, 3)));  // 11 tokens, 2 blocks hit
  EXPECT_TRUE(bench.batch.block_updates[0].replaces);
  EXPECT_TRUE(bench.batch.sequences[0].samples);
  EXPECT_THAT(bench.batch.added, IsEmpty());
  const SequenceOutput output = bench.update().at(0);
  EXPECT_EQ(output.num_preemptions, 1);
  EXPECT_EQ(output.num_cached_tokens, 0);  // of the first admission
  EXPECT_EQ(bench.scheduler.take_stats().prefix_cache_queries, 9);
}

TEST(Scheduler, IdenticalPromptHitsInTheSameStepButComputesItsLastBlock) {
  BenchOptions options;
  options.scheduler.max_num_scheduled_tokens = 32;
  Bench bench(options);
  bench.add(1, 8, 0);
  bench.add(2, 8, 0);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 8), Pair(2, 4)));
  const SchedulerStats stats = bench.scheduler.take_stats();
  EXPECT_EQ(stats.prefix_cache_queries, 16);
  EXPECT_EQ(stats.prefix_cache_hits, 4);
  EXPECT_THAT(stats.prefix_cache_admissions, ElementsAre(Pair(8, 0), Pair(8, 4)));
}

TEST(Scheduler, RetriesOfARefusedCandidateAreNotCountedAsQueries) {
  BenchOptions options;
  options.num_blocks = 5;
  Bench bench(options);
  bench.add(1, 12, 0);
  bench.add(2, 12, 100);
  bench.step();
  bench.step();
  EXPECT_EQ(bench.scheduler.take_stats().prefix_cache_queries, 12);
}

TEST(Scheduler, PriorityAdmitsAndPreemptsByKey) {
  BenchOptions options;
  options.policy = "priority";
  options.num_blocks = 4;  // 3 usable
  options.scheduler.max_num_seqs = 2;
  Bench bench(options);
  bench.add(1, 4, 0, 5);
  bench.add(2, 4, 100, 1);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(2, 4), Pair(1, 4)));
  // Both need a second block and one is left: 2 gets it, 1 has the larger key.
  EXPECT_THAT(bench.step(), ElementsAre(Pair(2, 1)));
  EXPECT_EQ(bench.scheduler.running()[0]->id, RequestId(2));
}

TEST(Scheduler, PriorityVictimServedInThisStepIsTakenBack) {
  BenchOptions options;
  options.policy = "priority";
  options.num_blocks = 4;
  Bench bench(options);
  bench.add(1, 4, 0, 5);
  bench.step();
  bench.add(2, 4, 100, 1);
  EXPECT_THAT(bench.schedule(), ElementsAre(Pair(1, 1), Pair(2, 4)));
  bench.update();
  // 1 is served first (it was admitted first) but holds blocks: 2 takes them for its next block.
  EXPECT_THAT(bench.schedule(), ElementsAre(Pair(2, 1)));
  EXPECT_EQ(bench.batch.num_tokens, 1);
  EXPECT_EQ(bench.scheduler.num_waiting(), 1);
}

TEST(Scheduler, EqualPriorityGoesByArrival) {
  BenchOptions options;
  options.policy = "priority";
  options.scheduler.max_num_seqs = 1;
  Bench bench(options);
  bench.add(2, 4, 0, 0);
  bench.add(1, 4, 100, 0);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 4)));
}

TEST(Scheduler, SkippedCandidatesAreCountedApartAndKeepTheirPlace) {
  Bench bench({});
  bench.add(1, 4, 0);
  bench.add(2, 4, 100);
  bench.add(3, 4, 200);
  bool open = false;
  bench.scheduler.set_admission_filter(
      [&](const Sequence& s) { return open || s.id == RequestId(3); });
  EXPECT_THAT(bench.step(), ElementsAre(Pair(3, 4)));
  const SchedulerStats stats = bench.scheduler.take_stats();
  EXPECT_EQ(stats.num_skipped, 2);
  EXPECT_EQ(stats.num_waiting, 0);
  bench.add(4, 2, 300);
  open = true;
  EXPECT_THAT(bench.step(), ElementsAre(Pair(3, 1), Pair(1, 4), Pair(2, 4), Pair(4, 2)));
}

TEST(Scheduler, EndTokensAreCheckedBeforeLength) {
  Bench bench({});
  Sequence& a = bench.add(1, 4, 0);
  a.sampling.max_tokens = 1;
  bench.schedule();
  auto outputs = bench.update(7777);
  EXPECT_EQ(outputs.at(0).finish_reason, FinishReason::kStop);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(outputs[0].stop_reason));

  Sequence& b = bench.add(2, 4, 100);
  b.sampling.max_tokens = 1;
  b.sampling.ignore_eos = true;
  bench.schedule();
  EXPECT_EQ(bench.update(7777).at(0).finish_reason, FinishReason::kLength);

  Sequence& c = bench.add(3, 4, 200);
  c.sampling.stop_token_ids = {42};
  bench.schedule();
  outputs = bench.update(42);
  EXPECT_EQ(outputs.at(0).finish_reason, FinishReason::kStop);
  EXPECT_EQ(std::get<TokenId>(outputs[0].stop_reason), 42);
  EXPECT_EQ(bench.scheduler.num_unfinished(), 0);
  EXPECT_EQ(bench.kv_cache.pool().usage(), 0.0);
}

TEST(Scheduler, RunnerHearsOfEveryEndOnce) {
  Bench bench({});
  bench.add(1, 4, 0);
  bench.add(2, 4, 100);
  bench.step();
  bench.scheduler.abort(RequestId(1));
  bench.scheduler.abort(RequestId(1));
  bench.schedule();
  EXPECT_THAT(bench.batch.ended, ElementsAre(RequestId(1)));
  bench.update();
  bench.schedule();
  EXPECT_THAT(bench.batch.ended, IsEmpty());
}

TEST(Scheduler, ARefusedAdmissionLeavesNoTrace) {
  Bench bench({});
  Sequence& sequence = bench.add(1, 8, 0);
  bench.kv_cache.set_allocation_fault([] { return true; });
  EXPECT_THAT(bench.step(), IsEmpty());
  EXPECT_EQ(sequence.state, SequenceState::kWaiting);
  EXPECT_FALSE(sequence.was_admitted());
  bench.kv_cache.set_allocation_fault(nullptr);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 8)));
}

TEST(Scheduler, AHundredThousandWaitingDoNotSlowAStep) {
  BenchOptions options;
  options.scheduler = {
      .max_num_scheduled_tokens = 512, .max_num_seqs = 64, .max_model_len = 1 << 20};
  options.num_blocks = 100'000;
  options.block_size = 16;
  Bench bench(options);
  for (int i = 0; i < 100'000; ++i) bench.add(i, 4, 0);
  EXPECT_EQ(bench.schedule().size(), 64u);
  bench.update();
  bench.scheduler.abort(RequestId(50'000));
  // update() checks invariants, which walk everything; measure schedule alone.
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) {
    bench.scheduler.schedule(1.0, bench.batch);
    RunnerOutput results;
    results.results.resize(bench.batch.sequences.size());
    for (auto& r : results.results) r.token_ids = {1};
    std::vector<SequenceOutput> outputs;
    bench.scheduler.update(bench.batch, results, outputs);
  }
  const double per_step =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / 1000;
  RecordProperty("microseconds_per_step", static_cast<int>(per_step * 1e6));
  EXPECT_LT(per_step, 1e-3);  // a walk through the queue would take longer
}

TEST(Scheduler, AVectorEndsAPooledSequence) {
  Bench bench(BenchOptions{});
  bench.add(1, 5);
  bench.schedule();
  RunnerOutput results;
  results.results.resize(1);
  results.results[0].pooled = {0.5f, -0.5f};
  std::vector<SequenceOutput> outputs;
  bench.scheduler.update(bench.batch, results, outputs);
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_THAT(outputs[0].pooled, ElementsAre(0.5f, -0.5f));
  EXPECT_EQ(outputs[0].finish_reason, FinishReason::kStop);
  EXPECT_EQ(bench.scheduler.num_unfinished(), 0);
}

}  // namespace
}  // namespace octavo::engine
