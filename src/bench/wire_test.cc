#include "bench/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "bench/schedule.h"
#include "bench/server_queries.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

SampleRequest sample() {
  SampleRequest request;
  request.prompts = {"Hi"};
  request.output_len = 5;
  return request;
}

Json payload(Wire wire, PayloadOptions options = {}, const SampleRequest& request = sample()) {
  options.wire = wire;
  options.model = "m";
  return Json::parse(make_payload(options, request));
}

TEST(Payload, EachApiHasItsOwnFields) {
  EXPECT_EQ(payload(Wire::kCompletions),
            Json::parse(R"({"model":"m","prompt":"Hi","repetition_penalty":1.0,"max_tokens":5,
              "logprobs":null,"stream":true,"stream_options":{"include_usage":true}})"));
  EXPECT_EQ(payload(Wire::kChat),
            Json::parse(R"({"model":"m","messages":[{"role":"user","content":[{"type":"text",
              "text":"Hi"}]}],"max_completion_tokens":5,"stream":true,
              "stream_options":{"include_usage":true}})"));
  EXPECT_EQ(payload(Wire::kResponses),
            Json::parse(
                R"({"model":"m","input":"Hi","max_output_tokens":5,"stream":true,"store":false})"));
  EXPECT_EQ(payload(Wire::kEmbeddings),
            Json::parse(R"({"model":"m","input":"Hi","truncate_prompt_tokens":-1})"));
  EXPECT_EQ(payload(Wire::kEmbeddingsChat),
            Json::parse(R"({"model":"m","messages":[{"role":"user","content":[{"type":"text",
              "text":"Hi"}]}],"truncate_prompt_tokens":-1})"));
  EXPECT_EQ(payload(Wire::kInfinity), Json::parse(R"({"model":"m","input":"Hi"})"));
  SampleRequest pair = sample();
  pair.prompts = {"q", "d1", "d2"};
  EXPECT_EQ(payload(Wire::kRerank, {}, pair),
            Json::parse(R"({"model":"m","query":"q","documents":["d1","d2"],
              "truncate_prompt_tokens":-1})"));
}

TEST(Payload, ExtraFieldsWinAndIdsAndAdaptersAreSent) {
  PayloadOptions options;
  options.ignore_eos = true;
  options.logprobs = 2;
  options.extra_body = R"({"temperature":0.0,"max_tokens":9})";
  SampleRequest request;
  request.token_ids = {1, 2};
  request.model = "adapter";
  const Json body = payload(Wire::kCompletions, options, request);
  EXPECT_EQ(body["max_tokens"], 9);
  EXPECT_EQ(body["temperature"], 0.0);
  EXPECT_EQ(body["ignore_eos"], true);
  EXPECT_EQ(body["logprobs"], 2);
  EXPECT_EQ(body["prompt"], Json::parse("[1,2]"));
  EXPECT_EQ(body["model"], "adapter");
}

/// Reads events, one a second from second 1 on; the error, if any, ends the reading.
struct Read {
  Outcome outcome;
  std::string error;
};
Read read(Wire wire, const std::vector<std::string>& events) {
  Read out;
  AnswerReader reader(wire, out.outcome);
  double now_s = 0;
  for (const std::string& event : events) {
    const Status status = reader.on_event(event, now_s += 1);
    if (status.ok()) continue;
    out.error = status.error().message;
    return out;
  }
  reader.finish();
  return out;
}

TEST(AnswerReader, CompletionsCountEveryChunkWithAChoice) {
  const Read got =
      read(Wire::kCompletions,
           {R"({"choices":[{"text":""}]})", R"({"choices":[{"text":"ab"}]})",
            R"({"choices":[{"text":"c","finish_reason":"stop"}]})",
            R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":4}})", "[DONE]"});
  EXPECT_TRUE(got.outcome.success);
  EXPECT_EQ(got.outcome.ttft_s, 1);  // empty text counts
  EXPECT_THAT(got.outcome.itl_s, ElementsAre(1, 1));
  EXPECT_EQ(got.outcome.latency_s, 3);  // neither usage nor [DONE]
  EXPECT_EQ(got.outcome.output_tokens, 4);
  EXPECT_EQ(got.outcome.prompt_len, 7);
  EXPECT_EQ(got.outcome.generated_text, "abc");
}

TEST(AnswerReader, ChatDoesNotCountTheOpeningRole) {
  const Read got =
      read(Wire::kChat, {R"({"choices":[{"delta":{"role":"assistant","content":""}}]})",
                         R"({"choices":[{"delta":{"reasoning":"hm"}}]})",
                         R"({"choices":[{"delta":{"content":"a"}}]})",
                         R"({"choices":[{"delta":{"tool_calls":[{"index":0}]}}]})",
                         R"({"choices":[{"delta":{"content":""}}]})",
                         R"({"choices":[{"delta":{},"finish_reason":"stop"}]})",
                         R"({"choices":[],"usage":{"completion_tokens":4},
                        "metrics":{"queue_time_ms":5,"time_to_first_token_ms":20.5}})"});
  EXPECT_TRUE(got.outcome.success);
  EXPECT_EQ(got.outcome.ttft_s, 2);
  EXPECT_THAT(got.outcome.itl_s, ElementsAre(1, 1, 1));
  EXPECT_EQ(got.outcome.latency_s, 5);
  EXPECT_EQ(got.outcome.generated_text, "a");
  EXPECT_DOUBLE_EQ(*got.outcome.server_queue_s, 0.005);
  EXPECT_DOUBLE_EQ(*got.outcome.server_ttft_s, 0.0205);
}

TEST(AnswerReader, ResponsesNeedTheirTerminalEvent) {
  std::vector<std::string> events = {R"({"type":"response.created"})",
                                     R"({"type":"response.reasoning_text.delta","delta":"x"})",
                                     R"({"type":"response.output_text.delta","delta":"a"})"};
  Read got = read(Wire::kResponses, events);
  EXPECT_FALSE(got.outcome.success);
  EXPECT_THAT(got.outcome.error, HasSubstr("terminal event"));
  events.push_back(
      R"({"type":"response.completed","response":{"usage":{"input_tokens":3,"output_tokens":2}}})");
  got = read(Wire::kResponses, events);
  EXPECT_TRUE(got.outcome.success);
  EXPECT_EQ(got.outcome.ttft_s, 2);
  EXPECT_EQ(got.outcome.generated_text, "a");
  EXPECT_EQ(got.outcome.output_tokens, 2);
  EXPECT_EQ(got.outcome.prompt_len, 3);
  EXPECT_THAT(read(Wire::kResponses, {R"({"type":"response.failed"})"}).error,
              HasSubstr("response.failed"));
}

TEST(AnswerReader, WhatIsNoAnswerFails) {
  EXPECT_THAT(read(Wire::kCompletions, {"[DONE]"}).outcome.error, HasSubstr("valid chunk"));
  EXPECT_THAT(read(Wire::kCompletions, {"<html>"}).error, HasSubstr("no JSON"));
  EXPECT_THAT(read(Wire::kCompletions, {"[1]"}).error, HasSubstr("no JSON object"));
  EXPECT_THAT(read(Wire::kCompletions, {R"({"error":{"message":"died"}})"}).error,
              HasSubstr("died"));
  // Odd types are not tokens and do not crash.
  EXPECT_FALSE(read(Wire::kChat, {R"({"choices":[{"delta":3}]})", R"({"choices":7})",
                                  R"({"choices":[],"usage":[]})", R"({"choices":[null]})"})
                   .outcome.success);
  Outcome outcome;
  outcome.start_s = 2;
  AnswerReader reader(Wire::kEmbeddings, outcome);
  EXPECT_FALSE(reader.on_body("oops", 3).ok());
  EXPECT_FALSE(outcome.success);
  EXPECT_TRUE(reader.on_body(R"({"data":[],"usage":{"prompt_tokens":9}})", 5).ok());
  EXPECT_TRUE(outcome.success);
  EXPECT_EQ(outcome.latency_s, 3);
  EXPECT_EQ(outcome.prompt_len, 9);
}

std::vector<double> times(ArrivalOptions options, size_t count) {
  NumpyLegacy random(0);
  const auto got = plan_arrivals(options, std::vector<SampleRequest>(count), random);
  EXPECT_TRUE(got.ok());
  return got.ok() ? got->times_s : std::vector<double>{};
}

TEST(AnswerReader, CountsThatMakeNoSenseAreNotSaid) {
  const Read got = read(
      Wire::kCompletions,
      {R"({"choices":[{"text":"a"}]})",
       R"({"choices":[],"usage":{"prompt_tokens":-3,"completion_tokens":9223372036854775807}})",
       "[DONE]"});
  EXPECT_TRUE(got.outcome.success);
  EXPECT_EQ(got.outcome.output_tokens, 0);
  EXPECT_EQ(got.outcome.prompt_len, 0);
}

TEST(Schedule, RatesBecomeTimes) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  ArrivalOptions options;
  options.request_rate = kInf;
  EXPECT_THAT(times(options, 3), ElementsAre(0, 0, 0));
  options.request_rate = 4;
  options.burstiness = kInf;
  EXPECT_THAT(times(options, 3), ElementsAre(0.25, 0.5, 0.75));
  options.burstiness = 1;
  // numpy: np.random.seed(0); np.random.gamma(1, 0.25) three times, summed, scaled to 3/4.
  const std::vector<double> poisson = times(options, 3);
  EXPECT_NEAR(poisson[0], 0.20063871582701995, 1e-15);
  EXPECT_NEAR(poisson[1], 0.5172568922663028, 1e-15);
  EXPECT_DOUBLE_EQ(poisson[2], 0.75);
}

TEST(Schedule, RampsAreNotRescaled) {
  ArrivalOptions options;
  options.request_rate = options.burstiness = std::numeric_limits<double>::infinity();
  options.ramp_up_strategy = "linear";
  options.ramp_up_start_rps = 1;
  options.ramp_up_end_rps = 4;
  const std::vector<double> linear = times(options, 4);
  EXPECT_DOUBLE_EQ(linear[0], 1);
  EXPECT_DOUBLE_EQ(linear[1], 1.5);
  EXPECT_DOUBLE_EQ(linear[3], 1 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4);
  options.ramp_up_strategy = "exponential";
  const std::vector<double> exponential = times(options, 3);
  EXPECT_DOUBLE_EQ(exponential[1], 1 + 1.0 / 2);
  EXPECT_DOUBLE_EQ(exponential[2], 1 + 1.0 / 2 + 1.0 / 4);
  options.ramp_up_strategy = "linear";
  options.ramp_up_start_rps = 0;
  NumpyLegacy random(0);
  EXPECT_FALSE(plan_arrivals(options, std::vector<SampleRequest>(2), random).ok());
}

TEST(SpecDecode, GainsAreDifferences) {
  const char* before =
      "# HELP x y\nvllm:spec_decode_num_drafts_total{engine=\"0\"} 10\n"
      "vllm:spec_decode_num_draft_tokens_total{engine=\"0\"} 30\n"
      "vllm:spec_decode_num_accepted_tokens_total{engine=\"0\"} 12\n"
      "vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",position=\"0\"} 8\n";
  const char* after =
      "vllm:spec_decode_num_drafts_total{engine=\"0\"} 20\n"
      "vllm:spec_decode_num_draft_tokens_total{engine=\"0\"} 60\n"
      "vllm:spec_decode_num_accepted_tokens_total{engine=\"0\"} 27\n"
      "vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",position=\"0\"} 17\n";
  const auto stats = spec_decode_gain(*parse_spec_decode(before), *parse_spec_decode(after));
  ASSERT_TRUE(stats.has_value());
  EXPECT_DOUBLE_EQ(stats->acceptance_rate, 50);
  EXPECT_DOUBLE_EQ(stats->acceptance_length, 2.5);
  EXPECT_THAT(stats->per_position_rates, ElementsAre(0.9));
  EXPECT_FALSE(spec_decode_gain(*parse_spec_decode(after), *parse_spec_decode(after)).has_value());
  EXPECT_FALSE(parse_spec_decode("vllm:num_requests_running 1\n").has_value());
}

}  // namespace
}  // namespace octavo::bench
