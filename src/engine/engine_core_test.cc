#include "engine/engine_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "engine/testing/harness.h"

namespace octavo::engine {
namespace {

using testing::Collected;
using testing::greedy_request;
using testing::Harness;
using testing::HarnessOptions;
using testing::prompt_of;

TEST(EngineCore, AnswersARequestAndReturnsToZero) {
  Harness h;
  ASSERT_TRUE(h.add(greedy_request(1, prompt_of(1, 10), 5)).ok());
  ASSERT_TRUE(h.run());
  EXPECT_EQ(h.of(1).token_ids.size(), 5u);
  EXPECT_EQ(h.of(1).finish_reason, FinishReason::kLength);
  EXPECT_EQ(h.sink.last.stats.num_running, 0);
  EXPECT_EQ(h.sink.last.stats.num_waiting, 0);
  EXPECT_EQ(h.sink.last.stats.kv_cache_usage, 0.0);
  EXPECT_FALSE(h.step());
}

TEST(EngineCore, IdleStepDoesNothingAndPublishesNothing) {
  Harness h;
  EXPECT_FALSE(h.step());
  EXPECT_EQ(h.sink.num_published, 0);
}

TEST(EngineCore, RefusesWhatCanNeverRun) {
  Harness h({.num_blocks = 5, .block_size = 4, .max_model_len = 32});
  const auto code = [&](AddRequest request) { return h.add(std::move(request)).error().code; };
  EXPECT_EQ(code(greedy_request(1, {}, 4)), Code::kInvalidArgument);
  EXPECT_EQ(code(greedy_request(1, prompt_of(1, 32), 1)), Code::kInvalidArgument);
  EXPECT_EQ(code(greedy_request(1, {96}, 4)), Code::kInvalidArgument);
  EXPECT_EQ(code(greedy_request(1, {-1}, 4)), Code::kInvalidArgument);
  // 16 slots: 10 + 7 tokens need KV for 16 of them, 10 + 8 for 17.
  EXPECT_EQ(code(greedy_request(1, prompt_of(1, 10), 8)), Code::kInvalidArgument);
  EXPECT_EQ(code(greedy_request(1, prompt_of(1, 10), 2147483647)), Code::kInvalidArgument);
  EXPECT_TRUE(h.add(greedy_request(1, prompt_of(1, 10), 7)).ok());
  AddRequest pool = greedy_request(2, {1}, 1);
  pool.task = Task::kPool;
  EXPECT_EQ(code(pool), Code::kUnsupported);
  ASSERT_TRUE(h.run());
  EXPECT_EQ(h.of(1).token_ids.size(), 7u);
}

TEST(EngineCore, ClampsOutputToTheContextLength) {
  Harness h({.max_model_len = 16});
  ASSERT_TRUE(h.add(greedy_request(1, prompt_of(1, 12), 2147483647)).ok());
  ASSERT_TRUE(h.run());
  EXPECT_EQ(h.of(1).token_ids.size(), 4u);
  EXPECT_EQ(h.of(1).finish_reason, FinishReason::kLength);
}

TEST(EngineCore, AbortEndsQueuedAndRunningRequestsWithinOneStep) {
  Harness h({.max_num_seqs = 1});
  ASSERT_TRUE(h.add(greedy_request(1, prompt_of(1, 10), 50)).ok());
  ASSERT_TRUE(h.add(greedy_request(2, prompt_of(2, 10), 50)).ok());
  h.step();
  EXPECT_EQ(h.sink.last.stats.num_waiting, 1);
  h.abort(2);
  h.step();
  EXPECT_EQ(h.sink.last.stats.num_waiting, 0);
  h.abort(1, true);
  h.step();
  EXPECT_EQ(h.sink.last.stats.num_running, 0);
  EXPECT_EQ(h.sink.last.stats.kv_cache_usage, 0.0);
  EXPECT_EQ(h.of(1).finish_reason, FinishReason::kAbort);
  EXPECT_FALSE(h.of(2).finish_reason);
  h.abort(1, true);  // harmless
  h.step();
}

TEST(EngineCore, StopStringAbortHasNoOutput) {
  Harness h;
  ASSERT_TRUE(h.add(greedy_request(1, prompt_of(1, 10), 50)).ok());
  h.step();
  h.abort(1, true, FinishReason::kStop);
  h.step();
  EXPECT_FALSE(h.of(1).finish_reason);
  EXPECT_EQ(h.engine->num_unfinished(), 0);
}

TEST(EngineCore, DeadlineEndsARequestWithAnError) {
  Harness h({.max_num_seqs = 1});
  for (int id = 1; id <= 2; ++id) {
    AddRequest request = greedy_request(id, prompt_of(id, 10), 50);
    request.deadline_s = h.clock.monotonic_s() + id;
    ASSERT_TRUE(h.add(std::move(request)).ok());
  }
  h.step();
  h.clock.advance(5.0);
  h.step();
  for (int id = 1; id <= 2; ++id) {
    EXPECT_EQ(h.of(id).finish_reason, FinishReason::kError);
    EXPECT_EQ(h.of(id).last.error, "deadline");
  }
}

TEST(EngineCore, DeathIsToldOnceAndRefusesNewWork) {
  Harness h;
  h.model->fail_at = 2;
  ASSERT_TRUE(h.add(greedy_request(1, prompt_of(1, 10), 50)).ok());
  h.step();
  Status reply = Error{};
  EXPECT_FALSE(h.engine->step().ok());
  EXPECT_FALSE(h.engine->step().ok());
  EXPECT_TRUE(h.engine->dead());
  EXPECT_EQ(h.sink.deaths.size(), 1u);
  EXPECT_EQ(h.add(greedy_request(2, {1}, 1)).error().code, Code::kUnavailable);
  EXPECT_EQ(h.engine->submit(AbortRequest{RequestId(1)}).error().code, Code::kUnavailable);
}

TEST(EngineCore, KillHookEndsTheChosenStep) {
  HarnessOptions options;
  options.config.fault = "kill@3";
  Harness h(options);
  ASSERT_TRUE(h.add(greedy_request(1, prompt_of(1, 10), 50)).ok());
  EXPECT_TRUE(h.engine->step().ok());
  EXPECT_TRUE(h.engine->step().ok());
  EXPECT_FALSE(h.engine->step().ok());
}

TEST(EngineCore, UnusableLogitsEndOnlyTheirOwnRequest) {
  Harness h;
  h.model->poison_token = 5;
  ASSERT_TRUE(h.add(greedy_request(1, {1, 2, 5}, 8)).ok());
  AddRequest other = greedy_request(2, {1, 2, 6}, 8);
  other.sampling.logit_bias = {{5, -100.0f}};  // never chooses the poison
  ASSERT_TRUE(h.add(std::move(other)).ok());
  ASSERT_TRUE(h.run());
  EXPECT_EQ(h.of(1).finish_reason, FinishReason::kError);
  EXPECT_TRUE(h.of(1).token_ids.empty());
  EXPECT_EQ(h.of(2).finish_reason, FinishReason::kLength);
  EXPECT_EQ(h.of(2).token_ids.size(), 8u);
}

TEST(EngineCore, ChildrenOfOneRequestShareThePromptInTheSameStep) {
  Harness h;
  for (int id = 1; id <= 4; ++id) {
    AddRequest request = greedy_request(id, prompt_of(9, 18), 6);
    request.sampling.temperature = 1.0f;
    ASSERT_TRUE(h.add(std::move(request)).ok());
  }
  h.step();
  EXPECT_EQ(h.of(1).last.num_cached_tokens, 0);
  for (int id = 2; id <= 4; ++id) EXPECT_EQ(h.of(id).last.num_cached_tokens, 16);
  EXPECT_EQ(h.sink.last.num_scheduled_tokens, 18 + 3 * 2);
  ASSERT_TRUE(h.run());
  // Unseeded, so they are not all equal.
  EXPECT_FALSE(h.of(1).token_ids == h.of(2).token_ids && h.of(2).token_ids == h.of(3).token_ids);
}

TEST(EngineCore, PromptLogprobsSkipCacheReadsAndCoverThePrompt) {
  Harness h({.num_blocks = 129, .max_num_batched_tokens = 512, .max_model_len = 400});
  for (int id = 1; id <= 2; ++id) {
    AddRequest request = greedy_request(id, prompt_of(3, 150), 3);
    request.sampling.prompt_logprobs = 2;
    ASSERT_TRUE(h.add(std::move(request)).ok());
  }
  ASSERT_TRUE(h.run());
  for (int id = 1; id <= 2; ++id) {
    EXPECT_EQ(h.of(id).last.num_cached_tokens, 0);
    ASSERT_EQ(h.of(id).prompt_logprobs.size(), 150u);
    EXPECT_FALSE(h.of(id).prompt_logprobs[0]);
    for (int i = 1; i < 150; ++i) {
      ASSERT_TRUE(h.of(id).prompt_logprobs[i]);
      EXPECT_EQ(h.of(id).prompt_logprobs[i]->top.size(), 2u);
    }
  }
  EXPECT_EQ(h.sink.last.stats.prefix_cache_queries, 0);
}

TEST(EngineCore, QueuedPromptsHaveABound) {
  HarnessOptions options{.max_num_seqs = 1};
  options.config.max_queued_prompt_bytes = 100;
  Harness h(options);
  ASSERT_TRUE(h.add(greedy_request(1, prompt_of(1, 20), 50)).ok());  // 80 bytes
  EXPECT_EQ(h.add(greedy_request(2, prompt_of(2, 20), 50)).error().code, Code::kOverloaded);
  h.step();  // the first one is admitted
  ASSERT_TRUE(h.add(greedy_request(2, prompt_of(2, 20), 50)).ok());
  h.step();
  EXPECT_EQ(h.add(greedy_request(3, prompt_of(3, 20), 50)).error().code, Code::kOverloaded);
  h.abort(2);
  h.step();
  EXPECT_TRUE(h.add(greedy_request(3, prompt_of(3, 20), 50)).ok());
}

TEST(EngineCore, PauseKeepFreezesAndResumeGoesOn) {
  Harness h;
  ASSERT_TRUE(h.add(greedy_request(1, prompt_of(1, 10), 3)).ok());
  h.step();
  int replies = 0;
  const auto control = [&](ControlRequest::Kind kind, std::string argument) {
    ControlRequest request{kind, std::move(argument), [&](Status s) { replies += s.ok(); }};
    ASSERT_TRUE(h.engine->submit(std::move(request)).ok());
  };
  control(ControlRequest::Kind::kPause, "keep");
  h.step();
  EXPECT_EQ(replies, 1);
  EXPECT_FALSE(h.step());
  EXPECT_EQ(h.of(1).token_ids.size(), 1u);
  control(ControlRequest::Kind::kResume, "");
  ASSERT_TRUE(h.run());
  EXPECT_EQ(h.of(1).token_ids.size(), 3u);
}

TEST(EngineCore, PauseWaitDrainsBeforeItReplies) {
  Harness h({.max_num_seqs = 1});
  ASSERT_TRUE(h.add(greedy_request(1, prompt_of(1, 10), 3)).ok());
  ASSERT_TRUE(h.add(greedy_request(2, prompt_of(2, 10), 3)).ok());
  h.step();
  int replies = 0;
  ControlRequest request{ControlRequest::Kind::kPause, "wait", [&](Status) { ++replies; }};
  ASSERT_TRUE(h.engine->submit(std::move(request)).ok());
  h.step();
  EXPECT_EQ(replies, 0);
  h.step();
  h.step();
  EXPECT_EQ(replies, 1);
  EXPECT_EQ(h.of(1).finish_reason, FinishReason::kLength);
  EXPECT_EQ(h.of(2).last.first_scheduled_s, 0.0);
  EXPECT_FALSE(h.step());
  ASSERT_TRUE(h.engine->submit(ControlRequest{ControlRequest::Kind::kResume, "", nullptr}).ok());
  ASSERT_TRUE(h.run());
  EXPECT_EQ(h.of(2).token_ids.size(), 3u);
}

TEST(EngineCore, ResetOfThePrefixCacheNeedsFreeBlocksUnlessRunningArePreempted) {
  Harness h;
  ASSERT_TRUE(h.add(greedy_request(1, prompt_of(1, 10), 20)).ok());
  h.step();
  std::vector<bool> replies;
  const auto reset = [&](std::string argument) {
    ControlRequest request{ControlRequest::Kind::kResetPrefixCache, std::move(argument),
                           [&](Status s) { replies.push_back(s.ok()); }};
    ASSERT_TRUE(h.engine->submit(std::move(request)).ok());
    h.step();
  };
  reset("");
  reset("reset_running");
  EXPECT_THAT(replies, ::testing::ElementsAre(false, true));
  ASSERT_TRUE(h.run());
  EXPECT_EQ(h.of(1).token_ids.size(), 20u);
  EXPECT_EQ(h.of(1).last.num_preemptions, 1);
}

TEST(EngineThread, ServesUntilStoppedEvenFromAStall) {
  HarnessOptions options;
  options.config.fault = "stall@4";
  Harness h(options);
  EngineThread thread(*h.engine);
  thread.start();
  ASSERT_TRUE(h.add(greedy_request(1, prompt_of(1, 10), 50)).ok());
  while (h.engine->num_steps_finished() < 3) std::this_thread::yield();
  thread.stop();  // would hang if the stall did not end
  EXPECT_FALSE(h.engine->dead());
}

/// Lets only one token through, or throws.
struct OnlyToken final : TokenConstraint {
  explicit OnlyToken(TokenId only) : token(only) {}
  void fill_mask(std::vector<uint32_t>& mask) override {
    if (token < 0) throw std::runtime_error("the grammar broke");
    for (size_t i = 0; i < mask.size(); ++i) {
      mask[i] &= static_cast<size_t>(token) / 32 == i ? uint32_t{1} << (token % 32) : 0;
    }
  }
  void accept(TokenId) override {}
  void rollback(int) override {}
  TokenId token;
};

TEST(EngineCore, ConstraintsReachTheRunnerBesideTheBatch) {
  Harness h;
  AddRequest request = greedy_request(1, prompt_of(1, 10), 3);
  request.constraint = std::make_shared<OnlyToken>(42);
  ASSERT_TRUE(h.add(std::move(request)).ok());
  ASSERT_TRUE(h.add(greedy_request(2, prompt_of(1, 10), 3)).ok());
  ASSERT_TRUE(h.run());
  EXPECT_THAT(h.of(1).token_ids, ::testing::ElementsAre(42, 42, 42));
  EXPECT_THAT(h.of(2).token_ids, ::testing::Not(::testing::Contains(42)));
}

TEST(EngineCore, WhatSamplingThrowsEndsThatSequenceOnly) {
  for (const int num_threads : {1, 4}) {
    Harness h({.num_threads = num_threads});
    for (int64_t id = 1; id <= 6; ++id) {
      AddRequest request = greedy_request(id, prompt_of(id, 10), 3);
      if (id % 2 == 0) request.constraint = std::make_shared<OnlyToken>(-1);
      ASSERT_TRUE(h.add(std::move(request)).ok());
    }
    ASSERT_TRUE(h.run());
    for (int64_t id = 1; id <= 6; ++id) {
      const bool fails = id % 2 == 0;
      EXPECT_EQ(h.of(id).finish_reason, fails ? FinishReason::kError : FinishReason::kLength);
      EXPECT_EQ(h.of(id).token_ids.size(), fails ? 0u : 3u);
    }
    EXPECT_TRUE(h.sink.deaths.empty());
  }
}

TEST(EngineCore, RefusesWhatCouldNotResumeWithoutChunks) {
  HarnessOptions options{.max_model_len = 128, .enable_chunked_prefill = false};
  options.config.scheduler.max_num_scheduled_tokens = 20;
  Harness h(options);
  EXPECT_TRUE(h.add(greedy_request(1, prompt_of(1, 10), 11)).ok());
  EXPECT_EQ(h.add(greedy_request(2, prompt_of(2, 10), 12)).error().code, Code::kInvalidArgument);
  ASSERT_TRUE(h.run());
}

/// An engine whose step throws.
struct ThrowingEngine final : Engine {
  const EngineInfo& info() const override { return info_; }
  Status submit(EngineMessage) override { return {}; }
  Result<bool> step() override {
    ++num_steps;
    throw std::runtime_error("a step threw");
  }
  void wait_for_message(std::chrono::milliseconds) override {}
  void interrupt() override {}
  Status warm_up() override { return {}; }
  bool dead() const override { return false; }
  int64_t num_unfinished() const override { return 0; }
  int64_t num_steps_finished() const override { return 0; }
  double last_step_finished_s() const override { return 0.0; }
  EngineInfo info_;
  std::atomic<int> num_steps = 0;
};

TEST(EngineThread, SurvivesWhatAStepThrows) {
  ThrowingEngine engine;
  EngineThread thread(engine);
  thread.start();
  while (engine.num_steps.load() == 0) std::this_thread::yield();
  thread.stop();
  EXPECT_EQ(engine.num_steps.load(), 1);
}

TEST(EngineCore, DiesAloudThoughAReplyThrows) {
  Harness h;
  h.model->fail_at = 1;
  ControlRequest drain{ControlRequest::Kind::kPause, "wait",
                       [](const Status&) { throw std::runtime_error("the asker broke"); }};
  ASSERT_TRUE(h.add(greedy_request(1, prompt_of(1, 10), 3)).ok());
  ASSERT_TRUE(h.engine->submit(AddRequest(greedy_request(2, prompt_of(2, 10), 3))).ok());
  ASSERT_TRUE(h.engine->submit(std::move(drain)).ok());
  for (int i = 0; i < 3 && !h.engine->dead(); ++i) (void)h.engine->step();
  EXPECT_TRUE(h.engine->dead());
  EXPECT_EQ(h.sink.deaths.size(), 1u);
}

TEST(EngineCore, AnAdapterThatIsNotLoadedIsRefusedAtTheDoor) {
  Harness h;
  AddRequest request = greedy_request(1, {1, 2}, 3);
  request.adapter_index = 0;
  const Status status = h.add(std::move(request));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kUnsupported);
  EXPECT_THAT(status.error().message, ::testing::HasSubstr("adapter"));
}

TEST(EngineCore, PromptChunksFillThePipeAndGiveTheSameTokens) {
  const AddRequest request = greedy_request(1, prompt_of(4, 60), 6);
  const auto run = [&](int num_inflight_steps) {
    Harness h({.max_num_batched_tokens = 10, .num_inflight_steps = num_inflight_steps});
    CHECK(h.add(request).ok());
    CHECK(h.run());
    if (h.deferred) {
      EXPECT_EQ(h.deferred->most_in_flight, num_inflight_steps);
    }
    EXPECT_EQ(h.sink.last.stats.kv_cache_usage, 0.0);
    return h.of(1).token_ids;
  };
  const auto expected = run(1);
  EXPECT_EQ(run(2), expected);
  EXPECT_EQ(run(4), expected);
}

TEST(EngineCore, WhatIsInFlightSurvivesPreemptionAbortAndDeath) {
  Harness h({.max_num_batched_tokens = 8, .num_inflight_steps = 3});
  for (int id = 1; id <= 3; ++id) {
    ASSERT_TRUE(h.add(greedy_request(id, prompt_of(id, 12), 5)).ok());
  }
  h.step();
  h.step();
  h.engine->scheduler().preempt_all();
  h.abort(2, true);
  ASSERT_TRUE(h.run());
  EXPECT_EQ(h.of(1).token_ids.size(), 5u);
  EXPECT_EQ(h.of(2).finish_reason, FinishReason::kAbort);
  EXPECT_EQ(h.of(3).token_ids.size(), 5u);
  h.model->fail_at = h.model->num_forwards + 2;
  ASSERT_TRUE(h.add(greedy_request(4, prompt_of(4, 40), 5)).ok());
  bool died = false;
  for (int i = 0; i < 10 && !died; ++i) died = !h.engine->step().ok();
  EXPECT_TRUE(died);
  EXPECT_EQ(h.sink.deaths.size(), 1u);
}

TEST(EngineCore, ControlsWithoutABackendSaySo) {
  Harness h;
  using Kind = ControlRequest::Kind;
  const std::pair<Kind, const char*> cases[] = {{Kind::kSleep, "sleep"},
                                                {Kind::kWake, "wake up"},
                                                {Kind::kLoadAdapter, "load an adapter"},
                                                {Kind::kProfile, "profile"}};
  for (const auto& [kind, name] : cases) {
    Status reply;
    ControlRequest request{kind, "", [&](Status status) { reply = std::move(status); }};
    ASSERT_TRUE(h.engine->submit(std::move(request)).ok());
    h.step();
    ASSERT_FALSE(reply.ok()) << name;
    EXPECT_EQ(reply.error().code, Code::kUnsupported);
    EXPECT_THAT(reply.error().message, ::testing::HasSubstr(name));
  }
}

TEST(EngineCore, AControlThatIsNotReachedIsAnsweredAtTheEnd) {
  int num_refused = 0;
  {
    Harness h;
    ControlRequest request{ControlRequest::Kind::kPause, "keep",
                           [&](const Status& status) { num_refused += !status.ok(); }};
    ASSERT_TRUE(h.engine->submit(std::move(request)).ok());
  }
  EXPECT_EQ(num_refused, 1);
}

TEST(EngineCore, AGreedySequenceIsTheSameWhetherItsLogitsAreWrittenOrNot) {
  const auto tokens_of = [](bool writes, bool with_neighbours, int num_threads) {
    Harness h({.num_threads = num_threads});
    h.model->poison_token = 40;
    for (int64_t id = 0; id < 6; ++id) {
      AddRequest request = greedy_request(id, prompt_of(static_cast<uint64_t>(id), 9), 30);
      if (writes) request.sampling.logprobs = 0;
      CHECK(h.add(std::move(request)).ok());
      if (!with_neighbours) {
        CHECK(h.run());
        continue;
      }
      request = greedy_request(100 + id, prompt_of(static_cast<uint64_t>(id), 9), 20);
      request.sampling.temperature = id % 2 == 0 ? 0.7f : 0.0f;
      if (id % 3 == 0) request.sampling.logprobs = 2;
      CHECK(h.add(std::move(request)).ok());
    }
    CHECK(h.run());
    std::vector<std::pair<std::vector<TokenId>, std::string>> out;
    for (int64_t id = 0; id < 6; ++id) out.emplace_back(h.of(id).token_ids, h.of(id).last.error);
    return out;
  };
  const auto expected = tokens_of(true, false, 1);
  EXPECT_TRUE(std::ranges::any_of(expected, [](const auto& one) { return !one.second.empty(); }))
      << "no sequence reaches NaN: choose another token";
  EXPECT_TRUE(std::ranges::any_of(expected, [](const auto& one) { return one.second.empty(); }));
  for (const bool writes : {false, true}) {
    for (const bool with_neighbours : {false, true}) {
      EXPECT_EQ(tokens_of(writes, with_neighbours, 1), expected);
      EXPECT_EQ(tokens_of(writes, with_neighbours, 2), expected);
    }
  }
}

TEST(EngineCore, AGivenSeedOfZeroIsRepeatable) {
  const auto draw = [](int64_t seed) {
    HarnessOptions options;
    options.config.model.seed = seed;
    options.config.model.user_specified_seed = true;
    Harness h(options);
    AddRequest request = greedy_request(1, prompt_of(1, 10), 12);
    request.sampling.temperature = 1.5f;
    CHECK(h.add(std::move(request)).ok());
    CHECK(h.run());
    return h.of(1).token_ids;
  };
  EXPECT_EQ(draw(0), draw(0));
  EXPECT_NE(draw(0), draw(1));
}

}  // namespace
}  // namespace octavo::engine
