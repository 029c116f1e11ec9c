#include "frontend/frontend.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "frontend/fakes.h"
#include "frontend/output_stream.h"

namespace octavo::frontend {
namespace {

using namespace std::chrono_literals;
using engine::FinishReason;
using observability::MetricId;

struct Collected {
  std::string text;
  std::vector<engine::TokenId> tokens;
  std::optional<FinishReason> finish;
  engine::StopReason stop_reason;
  std::string error;
  int num_deltas = 0;
  int num_empty = 0;
};

/// A frontend over a FakeEngine whose answers are `script`.
class FrontendTest : public ::testing::Test {
 protected:
  void start(std::vector<engine::TokenId> script = {}, Frontend::Options options = {}) {
    options.model_name = "m";
    auto factory = [&](engine::OutputSink& sink) -> Result<std::unique_ptr<engine::Engine>> {
      auto engine = std::make_unique<fakes::FakeEngine>(sink, clock_);
      engine->script = script;
      engine->num_cached_tokens = num_cached_;
      engine_ = engine.get();
      return std::unique_ptr<engine::Engine>(std::move(engine));
    };
    auto created = create_frontend(std::move(options), factory,
                                   std::make_unique<fakes::FakeTokenizer>(words_), clock_);
    ASSERT_TRUE(created.ok());
    frontend_ = std::move(created).value();
  }
  static std::vector<engine::TokenId> bytes(std::string_view text) {
    std::vector<engine::TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
    return ids;
  }
  GenerateRequest request(std::string_view prompt, int32_t max_tokens, int32_t n = 1) {
    GenerateRequest r;
    r.request_id = "test";
    r.prompt = bytes(prompt);
    r.sampling.max_tokens = max_tokens;
    r.n = n;
    r.arrival_wall_s = clock_.wall_s();
    return r;
  }
  static std::vector<Collected> collect(OutputStream& stream, int32_t n = 1) {
    std::vector<Collected> out(static_cast<size_t>(n));
    for (int round = 0; round < 1000 && !stream.finished(); ++round) {
      stream.wait(1000ms);
      for (Delta& delta : stream.take()) {
        Collected& c = out[static_cast<size_t>(delta.index)];
        EXPECT_FALSE(c.finish.has_value()) << "a delta after the end";
        c.text += delta.text;
        c.tokens.insert(c.tokens.end(), delta.token_ids.begin(), delta.token_ids.end());
        c.finish = delta.finish_reason;
        c.stop_reason = delta.stop_reason;
        c.error = delta.error;
        ++c.num_deltas;
        if (delta.text.empty()) ++c.num_empty;
        EXPECT_EQ(static_cast<size_t>(delta.num_generated_tokens), c.tokens.size());
      }
    }
    return out;
  }
  Collected run(GenerateRequest r) {
    auto stream = frontend_->generate(std::move(r));
    EXPECT_TRUE(stream.ok());
    return collect(**stream)[0];
  }
  double metric(MetricId id, int label = 0) const { return frontend_->metrics().value(id, label); }
  double ended(FinishReason reason) const {
    return metric(MetricId::kRequestSuccess, static_cast<int>(reason));
  }
  template <class F>
  static bool eventually(F condition) {
    for (int i = 0; i < 2000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(1ms);
    }
    return false;
  }

  ManualClock clock_;
  int32_t num_cached_ = 0;
  std::vector<std::string> words_;
  fakes::FakeEngine* engine_ = nullptr;
  std::unique_ptr<Frontend> frontend_;
};

TEST_F(FrontendTest, JoinedDeltasAreTheWholeTextAndNoDeltaSplitsACharacter) {
  const std::string text = "Repeat: \xF0\x9F\x8C\xB6 \xC3\xA9t\xC3\xA9 \xE4\xBD\xA0";
  start(bytes(text));
  auto stream = frontend_->generate(request("p", static_cast<int32_t>(text.size())));
  ASSERT_TRUE(stream.ok());
  std::string joined;
  while (!(*stream)->finished()) {
    (*stream)->wait(1000ms);
    for (const Delta& delta : (*stream)->take()) {
      if (!delta.text.empty()) {
        EXPECT_NE(static_cast<uint8_t>(delta.text[0]) & 0xC0, 0x80);
      }
      joined += delta.text;
    }
  }
  EXPECT_EQ(joined, text);
}

TEST_F(FrontendTest, BL003_ACutInsideACharacterEndsWithAReplacementCharacter) {
  start(bytes("\xF0\x9F\x8C\xB6"));
  for (int32_t n = 1; n < 4; ++n) {
    const Collected c = run(request("p", n));
    EXPECT_EQ(c.finish, FinishReason::kLength);
    EXPECT_EQ(c.text, "\xEF\xBF\xBD");
  }
}

TEST_F(FrontendTest, StopStringEndsTheSampleAbortsTheEngineAndDropsOvershoot) {
  start(bytes("alpha beta gamma delta "));
  GenerateRequest r = request("p", 40);
  r.text.stop = {"beta gamma"};
  const Collected c = run(std::move(r));
  EXPECT_EQ(c.text, "alpha ");
  EXPECT_EQ(c.finish, FinishReason::kStop);
  EXPECT_EQ(std::get<std::string>(c.stop_reason), "beta gamma");
  EXPECT_EQ(c.tokens.size(), 16u);
  ASSERT_TRUE(eventually([&] { return !engine_->aborts().empty(); }));
  EXPECT_EQ(engine_->aborts()[0].reason, FinishReason::kStop);
  EXPECT_FALSE(engine_->aborts()[0].want_output);
  EXPECT_EQ(ended(FinishReason::kStop), 1);
  EXPECT_EQ(metric(MetricId::kGenerationTokens), 16);
}

TEST_F(FrontendTest, BL017_StopStringAsFirstWordGivesEmptyText) {
  start(bytes("alpha"));
  GenerateRequest r = request("p", 20);
  r.text.stop = {"alpha"};
  const Collected c = run(std::move(r));
  EXPECT_EQ(c.text, "");
  EXPECT_EQ(c.finish, FinishReason::kStop);
  EXPECT_GE(c.tokens.size(), 1u);
}

TEST_F(FrontendTest, BL022_StopStringsWaitForMinTokens) {
  start(bytes("ab.cdefghi."));
  GenerateRequest r = request("p", 30);
  r.sampling.min_tokens = 5;
  r.text.stop = {"."};
  const Collected c = run(std::move(r));
  EXPECT_EQ(c.text, "ab.cdefghi");
  EXPECT_EQ(c.tokens.size(), 11u);
}

TEST_F(FrontendTest, StopStringCompletedByTheLastTokenBeatsLength) {
  start(bytes("abc"));
  GenerateRequest r = request("p", 3);
  r.text.stop = {"c"};
  const Collected c = run(std::move(r));
  EXPECT_EQ(c.finish, FinishReason::kStop);
  EXPECT_EQ(c.text, "ab");
}

TEST_F(FrontendTest, HeldBackTextIsReleasedAtTheEnd) {
  start(bytes("ab##"));
  GenerateRequest r = request("p", 4);
  r.text.stop = {"###"};
  EXPECT_EQ(run(std::move(r)).text, "ab##");
}

TEST_F(FrontendTest, BL024_StopTokenIsNoTextUnlessIncluded) {
  start(bytes("abc"));
  for (const bool include : {false, true}) {
    GenerateRequest r = request("p", 9);
    r.sampling.stop_token_ids = {'c'};
    r.text.include_stop_str_in_output = include;
    const Collected c = run(std::move(r));
    EXPECT_EQ(c.text, include ? "abc" : "ab");
    EXPECT_EQ(c.tokens.size(), 3u);
    EXPECT_EQ(std::get<engine::TokenId>(c.stop_reason), 'c');
  }
}

TEST_F(FrontendTest, AParserMaySeeSpecialTokensThatTheClientSkips) {
  auto script = bytes("ab");
  script.insert(script.begin() + 1, 258);  // <|im_start|>
  start(script);
  for (const bool parser : {false, true}) {
    GenerateRequest r = request("x", 3);
    r.text.parser_sees_special_tokens = parser;
    auto stream = frontend_->generate(std::move(r)).value();
    const Collected got = collect(*stream).front();
    EXPECT_EQ(got.text, parser ? "a<|im_start|>b" : "ab");
    EXPECT_EQ(got.tokens.size(), 3u);
  }
}

TEST_F(FrontendTest, ControlsReachTheEngineAndTheReplyComesBackOnce) {
  using Kind = engine::ControlRequest::Kind;
  start();
  const auto ask = [&](Kind kind) {
    auto answered = std::make_shared<std::promise<Status>>();
    auto future = answered->get_future();
    frontend_->control(kind, "", [answered](Status status) {
      answered->set_value(std::move(status));  // throws if called twice
    });
    EXPECT_EQ(future.wait_for(20s), std::future_status::ready);
    return future.get();
  };
  EXPECT_TRUE(ask(Kind::kPause).ok());
  engine_->control_reply = Error{Code::kUnsupported, "this engine cannot sleep yet"};
  EXPECT_EQ(ask(Kind::kSleep).error().code, Code::kUnsupported);
  engine_->die("test");
  EXPECT_EQ(ask(Kind::kResume).error().code, Code::kUnavailable);
}

TEST_F(FrontendTest, StreamIntervalJoinsTokensButKeepsFirstAndLast) {
  start(bytes("abcdefghij"));
  GenerateRequest r = request("p", 10);
  r.text.stream_interval = 4;
  const Collected c = run(std::move(r));
  EXPECT_EQ(c.text, "abcdefghij");
  EXPECT_LE(c.num_deltas, 4);
  GenerateRequest final = request("p", 10);
  final.text.final_only = true;
  EXPECT_EQ(run(std::move(final)).num_deltas, 1);
}

TEST_F(FrontendTest, IdsOnlyGivesTokensWithoutText) {
  start(bytes("abcdefghij"));
  GenerateRequest r = request("p", 10);
  r.text.ids_only = true;
  const Collected c = run(std::move(r));
  EXPECT_EQ(c.text, "");
  EXPECT_EQ(metric(MetricId::kGenerationTokens), 10);
}

TEST_F(FrontendTest, IdentitiesOfTheSequentialCheckHold) {
  num_cached_ = 2;
  start(bytes("abcdefghij"));
  for (int i = 0; i < 3; ++i) run(request("12345", 10));
  const auto& m = frontend_->metrics();
  EXPECT_EQ(metric(MetricId::kPromptTokens), 15);
  EXPECT_EQ(metric(MetricId::kPromptTokensBySource, 0), 9);
  EXPECT_EQ(metric(MetricId::kPromptTokensBySource, 1), 6);
  EXPECT_EQ(metric(MetricId::kPromptTokensCached), 6);
  EXPECT_EQ(metric(MetricId::kGenerationTokens), 30);
  EXPECT_EQ(metric(MetricId::kTimeToFirstToken), 3);
  EXPECT_EQ(metric(MetricId::kInterTokenLatency), 27);
  EXPECT_EQ(metric(MetricId::kIterationTokens), 30);
  EXPECT_EQ(m.histogram_sum(MetricId::kIterationTokens), 3 * (5 - 2 + 10));
  EXPECT_EQ(m.histogram_sum(MetricId::kRequestParamsMaxTokens), 30);
  EXPECT_EQ(m.histogram_sum(MetricId::kRequestPrefillKvComputedTokens), 9);
  for (const MetricId id :
       {MetricId::kE2eRequestLatency, MetricId::kRequestQueueTime, MetricId::kRequestPrefillTime,
        MetricId::kRequestDecodeTime, MetricId::kRequestInferenceTime,
        MetricId::kRequestTimePerOutputToken, MetricId::kRequestPromptTokens,
        MetricId::kRequestGenerationTokens, MetricId::kRequestNumPreemptions,
        MetricId::kRequestMaxNumGenerationTokens, MetricId::kRequestParamsN}) {
    EXPECT_EQ(metric(id), 3) << static_cast<int>(id);
  }
  EXPECT_EQ(ended(FinishReason::kLength), 3);
  EXPECT_EQ(frontend_->num_unfinished(), 0);
}

TEST_F(FrontendTest, ChildrenCountEachAndTheRequestOnce) {
  start(bytes("ab"));
  GenerateRequest r = request("12345", 2, 4);
  r.sampling.seed = 7;
  auto stream = frontend_->generate(std::move(r));
  ASSERT_TRUE(stream.ok());
  for (const Collected& c : collect(**stream, 4)) EXPECT_EQ(c.text, "ab");
  EXPECT_EQ(metric(MetricId::kPromptTokens), 20);
  EXPECT_EQ(ended(FinishReason::kLength), 4);
  EXPECT_EQ(metric(MetricId::kE2eRequestLatency), 4);
  EXPECT_EQ(metric(MetricId::kRequestParamsN), 1);
  EXPECT_EQ(frontend_->metrics().histogram_sum(MetricId::kRequestParamsN), 4);
  EXPECT_EQ(frontend_->metrics().histogram_sum(MetricId::kRequestMaxNumGenerationTokens), 2);
  const auto added = engine_->added();
  ASSERT_EQ(added.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(added[i].sampling.seed, 7 + static_cast<int64_t>(i));
}

TEST_F(FrontendTest, DroppingTheStreamAbortsAndCountsOnceWithoutLatencies) {
  start(bytes("a"));
  engine_->hold = true;
  auto stream = frontend_->generate(request("p", 50));
  ASSERT_TRUE(stream.ok());
  stream->reset();
  ASSERT_TRUE(eventually([&] { return ended(FinishReason::kAbort) == 1; }));
  engine_->hold = false;
  ASSERT_TRUE(eventually([&] { return !engine_->aborts().empty(); }));
  EXPECT_EQ(metric(MetricId::kE2eRequestLatency), 0);
  EXPECT_EQ(metric(MetricId::kRequestParamsN), 0);
  EXPECT_EQ(frontend_->num_unfinished(), 0);
}

TEST_F(FrontendTest, AbortedStreamEndsWithAbort) {
  start(bytes("a"));
  engine_->hold = true;
  auto stream = frontend_->generate(request("p", 50, 2));
  ASSERT_TRUE(stream.ok());
  (*stream)->abort();
  (*stream)->abort();
  for (const Collected& c : collect(**stream, 2)) EXPECT_EQ(c.finish, FinishReason::kAbort);
  EXPECT_EQ(ended(FinishReason::kAbort), 2);
}

TEST_F(FrontendTest, AbortAllEndsEveryRequestThroughTheEngine) {
  start(bytes("a"));
  engine_->hold = true;
  auto stream = frontend_->generate(request("p", 1 << 30));
  ASSERT_TRUE(stream.ok());
  frontend_->begin_drain();
  EXPECT_FALSE(frontend_->ready());
  EXPECT_EQ(frontend_->generate(request("p", 5)).error().code, Code::kUnavailable);
  frontend_->abort_all();
  engine_->hold = false;
  EXPECT_EQ(collect(**stream)[0].finish, FinishReason::kAbort);
  EXPECT_EQ(ended(FinishReason::kAbort), 1);
}

TEST_F(FrontendTest, FailAllEndsEveryRequestWithoutTheEngine) {
  start(bytes("a"));
  engine_->hold = true;
  auto stream = frontend_->generate(request("p", 50, 2));
  ASSERT_TRUE(stream.ok());
  frontend_->abort_all();
  frontend_->fail_all("stuck");
  for (const Collected& c : collect(**stream, 2)) {
    EXPECT_EQ(c.finish, FinishReason::kError);
    EXPECT_EQ(c.error, "stuck");
  }
  EXPECT_EQ(ended(FinishReason::kError), 2);
}

TEST_F(FrontendTest, EngineDeathAnswersEveryOpenStreamAtOnce) {
  start(bytes("a"));
  engine_->hold = true;
  auto one = frontend_->generate(request("p", 50));
  auto two = frontend_->generate(request("p", 50, 3));
  ASSERT_TRUE(one.ok() && two.ok());
  engine_->die("the model fell over");
  EXPECT_EQ(collect(**one)[0].error, "the model fell over");
  for (const Collected& c : collect(**two, 3)) EXPECT_EQ(c.finish, FinishReason::kError);
  EXPECT_EQ(ended(FinishReason::kError), 4);
  EXPECT_TRUE(frontend_->engine_dead());
  EXPECT_FALSE(frontend_->live());
  EXPECT_EQ(frontend_->generate(request("p", 5)).error().code, Code::kUnavailable);
  EXPECT_EQ(frontend_->num_unfinished(), 0);
}

TEST_F(FrontendTest, StopFinishesWhatIsOpen) {
  start(bytes("a"));
  engine_->hold = true;
  auto stream = frontend_->generate(request("p", 50));
  ASSERT_TRUE(stream.ok());
  frontend_->stop();
  EXPECT_EQ(collect(**stream)[0].finish, FinishReason::kAbort);
  frontend_.reset();
  (*stream)->abort();  // the stream outlives its frontend
}

TEST_F(FrontendTest, QueueLimitsRefuseWithoutATrace) {
  Frontend::Options options;
  options.scheduler.max_num_queued_reqs = 2;
  options.scheduler.max_num_queued_tokens = 6;
  start(bytes("a"), std::move(options));
  engine_->hold = true;
  auto first = frontend_->generate(request("12345", 5));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(frontend_->generate(request("p", 5, 2)).error().code, Code::kOverloaded);
  auto second = frontend_->generate(request("12345", 5));  // 5 < 6 tokens wait
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(frontend_->generate(request("p", 5)).error().code, Code::kOverloaded);
  EXPECT_EQ(frontend_->num_unfinished(), 2);
  engine_->hold = false;
  collect(**first);
  collect(**second);
  auto third = frontend_->generate(request("p", 5));
  ASSERT_TRUE(third.ok());
  collect(**third);
  EXPECT_EQ(ended(FinishReason::kLength), 3);
}

TEST_F(FrontendTest, RefusalOfOneChildTakesBackTheOthers) {
  start(bytes("a"));
  engine_->hold = true;
  engine_->refuse_after = 2;
  EXPECT_EQ(frontend_->generate(request("p", 5, 4)).error().code, Code::kOverloaded);
  engine_->hold = false;
  ASSERT_TRUE(eventually([&] { return engine_->aborts().size() == 2; }));
  ASSERT_TRUE(eventually([&] { return frontend_->num_unfinished() == 0; }));
  for (int reason = 0; reason < engine::kNumFinishReasons; ++reason) {
    EXPECT_EQ(metric(MetricId::kRequestSuccess, reason), 0);
  }
}

TEST_F(FrontendTest, WhatTheEngineRefusesLeavesNoTrace) {
  start(bytes("a"));
  EXPECT_EQ(frontend_->generate(request(std::string(64, 'x'), 5)).error().code,
            Code::kInvalidArgument);
  ASSERT_TRUE(eventually([&] { return frontend_->num_unfinished() == 0; }));
  for (int reason = 0; reason < engine::kNumFinishReasons; ++reason) {
    EXPECT_EQ(metric(MetricId::kRequestSuccess, reason), 0);
  }
}

TEST_F(FrontendTest, CopiesForTheSamplesAreBounded) {
  Frontend::Options options;
  options.max_held_bytes = 100'000;
  start(bytes("a"), std::move(options));
  engine_->hold = true;
  const auto with_ids = [&](int32_t n) {
    GenerateRequest r = request("p", 5, n);
    r.sampling.allowed_token_ids.assign(10'000, 'a');
    return r;
  };
  EXPECT_EQ(frontend_->generate(with_ids(3)).error().code, Code::kInvalidArgument);
  auto first = frontend_->generate(with_ids(2));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(frontend_->generate(with_ids(1)).error().code, Code::kOverloaded);
  EXPECT_EQ(frontend_->num_unfinished(), 2);
  engine_->hold = false;
  collect(**first, 2);
  auto second = frontend_->generate(with_ids(2));
  ASSERT_TRUE(second.ok()) << "what has ended counts no more";
  collect(**second, 2);
}

/// Blocks or throws where the output thread hands its figures over.
class AwkwardSink final : public StatsSink {
 public:
  void record_step(const engine::SchedulerStats&, int64_t, int64_t) override {
    if (throws) throw std::runtime_error("no memory");
    while (blocks) std::this_thread::sleep_for(1ms);
  }
  void tick(double) override {}
  std::atomic<bool> throws{false};
  std::atomic<bool> blocks{false};
};

TEST_F(FrontendTest, ASlowOutputStageSlowsTheEngine) {
  auto sink = std::make_unique<AwkwardSink>();
  AwkwardSink& awkward = *sink;
  awkward.blocks = true;
  Frontend::Options options;
  options.stats = std::move(sink);
  start(bytes("a"), std::move(options));
  auto stream = frontend_->generate(request("p", 500));
  ASSERT_TRUE(stream.ok());
  ASSERT_TRUE(eventually([&] { return engine_->num_steps_finished() >= 64; }));
  std::this_thread::sleep_for(100ms);
  EXPECT_LE(engine_->num_steps_finished(), 70);
  awkward.blocks = false;
  EXPECT_EQ(collect(**stream)[0].tokens.size(), 500u);
}

TEST_F(FrontendTest, AFailureOnTheOutputThreadEndsEveryRequestAsEngineDeath) {
  auto sink = std::make_unique<AwkwardSink>();
  AwkwardSink& awkward = *sink;
  Frontend::Options options;
  options.stats = std::move(sink);
  start(bytes("a"), std::move(options));
  auto one = frontend_->generate(request("p", 1 << 30));
  ASSERT_TRUE(one.ok());
  (*one)->wait(1000ms);
  awkward.throws = true;
  EXPECT_EQ(collect(**one)[0].finish, FinishReason::kError);
  EXPECT_TRUE(frontend_->engine_dead());
  EXPECT_EQ(frontend_->generate(request("p", 5)).error().code, Code::kUnavailable);
  EXPECT_EQ(frontend_->num_unfinished(), 0);
  frontend_->stop();
}

TEST(DeltaTest, MergingKeepsTheOrderOfAllParts) {
  Delta to, more;
  to.text = "a";
  to.prompt_logprobs.resize(1);
  more.text = "b";
  more.prompt_logprobs.resize(2);
  more.num_generated_tokens = 2;
  merge(to, std::move(more));
  EXPECT_EQ(to.text, "ab");
  EXPECT_EQ(to.prompt_logprobs.size(), 3u);
  EXPECT_EQ(to.num_generated_tokens, 2);
}

TEST_F(FrontendTest, LiveFailsWhenWorkWaitsAndNoStepFinishes) {
  start(bytes("a"));
  clock_.advance(100);
  EXPECT_TRUE(frontend_->live());  // idle
  engine_->hold = true;
  auto stream = frontend_->generate(request("p", 5));
  ASSERT_TRUE(stream.ok());
  clock_.advance(29);
  EXPECT_TRUE(frontend_->live());
  clock_.advance(2);
  EXPECT_FALSE(frontend_->live());
}

TEST_F(FrontendTest, PreemptionsAndCacheFiguresAdvanceByTheirDifferences) {
  start(bytes("a"));
  engine_->stats.num_preemptions = 2;
  engine_->stats.prefix_cache_queries = 32;
  engine_->stats.prefix_cache_hits = 16;
  engine_->stats.num_waiting = 3;
  engine_->stats.num_skipped = 1;
  engine_->stats.kv_cache_usage = 0.5;
  run(request("p", 3));
  EXPECT_EQ(metric(MetricId::kNumPreemptions), 2);
  EXPECT_EQ(metric(MetricId::kPrefixCacheQueries), 32);
  EXPECT_EQ(metric(MetricId::kPrefixCacheHits), 16);
  EXPECT_EQ(metric(MetricId::kNumRequestsWaiting), 4);
  EXPECT_EQ(metric(MetricId::kGpuCacheUsagePerc), 0.5);
}

}  // namespace
}  // namespace octavo::frontend
