#include <fmt/format.h>

#include <fstream>

#include "base/log.h"
#include "openai/openai_test_fixture.h"

namespace octavo::openai {
namespace {

struct BadField {
  const char* field;  // JSON members added to a good body
  const char* param;
  const char* type = "BadRequestError";
};

constexpr const char* kSchema = "Bad Request";

class Validation : public ApiTest {
 protected:
  static std::string chat(const std::string& more) {
    return R"({"messages":[{"role":"user","content":"hi"}])" + (more.empty() ? "" : "," + more) +
           "}";
  }
  static std::string completion(const std::string& more) {
    return R"({"prompt":"hi")" + (more.empty() ? "" : "," + more) + "}";
  }
  void expect_both(const BadField& bad) {
    for (const bool is_chat : {true, false}) {
      const Json e = is_chat ? error(post_chat_completions, chat(bad.field))
                             : error(post_completions, completion(bad.field));
      EXPECT_EQ(e["type"], bad.type) << bad.field;
      EXPECT_EQ(e["param"], bad.param) << bad.field << " " << e.dump();
    }
  }
};

TEST_F(Validation, RangesOfSamplingFieldsNameTheField) {
  const BadField cases[] = {
      // BL-032
      {R"("n":100000000)", "n"},
      {R"("n":0)", "n"},
      {R"("n":-1)", "n"},
      {R"("n":"3")", "body.n", kSchema},
      {R"("n":2.5)", "body.n", kSchema},
      {R"("n":3,"temperature":0)", "n"},  // BL-034
      // BL-037, BL-039
      {R"("top_k":0.01)", "body.top_k", kSchema},
      {R"("top_k":"5")", "body.top_k", kSchema},
      {R"("top_k":-2)", "top_k"},
      {R"("temperature":2.1)", "temperature"},
      {R"("temperature":-0.1)", "temperature"},
      {R"("temperature":999999)", "temperature"},
      {R"("temperature":"hot")", "body.temperature", kSchema},
      {R"("temperature":true)", "body.temperature", kSchema},
      {R"("top_p":0)", "top_p"},
      {R"("top_p":1.1)", "top_p"},
      {R"("top_p":-1)", "top_p"},
      {R"("top_p":1e-300)", "top_p"},
      {R"("presence_penalty":5)", "presence_penalty"},
      {R"("frequency_penalty":-2.5)", "frequency_penalty"},
      {R"("repetition_penalty":0)", "repetition_penalty"},
      {R"("repetition_penalty":1e300)", "repetition_penalty"},
      {R"("repetition_penalty":1e-45)", "repetition_penalty"},
      {R"("min_p":2)", "min_p"},
      {R"("seed":1.5)", "body.seed", kSchema},
      {R"("seed":18446744073709551615)", "body.seed", kSchema},
  };
  for (const BadField& bad : cases) expect_both(bad);
}

TEST_F(Validation, RangesOfSharedFieldsNameTheField) {
  const BadField cases[] = {
      // BL-018
      {R"("stop":"")", "stop"},
      {R"("stop":["","x"])", "stop"},
      {R"("stop":["a","b","c","d","e"])", "stop"},
      {R"("stop":[1])", "body.stop", kSchema},
      {R"("stop":{"a":1})", "body.stop", kSchema},
      // BL-035, BL-036
      {R"("logit_bias":{"99999999":5})", "logit_bias"},
      {R"("logit_bias":{"-1":5})", "logit_bias"},
      {R"("logit_bias":{"x":5})", "logit_bias"},
      {R"("logit_bias":{"99999999999999999999999":5})", "logit_bias"},
      {R"("logit_bias":{"5":"x"})", "body.logit_bias.5", kSchema},
      {R"("logit_bias":[5])", "body.logit_bias", kSchema},
      {R"("stop_token_ids":[305],"min_tokens":1)", "stop_token_ids"},
      {R"("stop_token_ids":[-1])", "stop_token_ids"},
      {R"("stop_token_ids":[true])", "body.stop_token_ids.0", kSchema},
      {R"("allowed_token_ids":[])", "allowed_token_ids"},
      {R"("allowed_token_ids":[300])", "allowed_token_ids"},
      {R"("bad_words":[""])", "bad_words"},
      {R"("bad_words":["a",5])", "body.bad_words", kSchema},
      {R"("bad_words":"a")", "body.bad_words", kSchema},
      // BL-023, BL-027
      {R"("min_tokens":6,"max_tokens":5)", "min_tokens"},
      {R"("min_tokens":-1)", "min_tokens"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":-5)", "max_tokens"},
      {R"("max_tokens":2147483647)", "max_tokens"},  // BL-090
      {R"("max_tokens":1e300)", "body.max_tokens", kSchema},
      {R"("prompt_logprobs":-2)", "prompt_logprobs"},
      {R"("prompt_logprobs":-1)", "prompt_logprobs"},  // BL-049: beyond --max-logprobs
      {R"("prompt_logprobs":2,"stream":true)", "prompt_logprobs"},
      {R"("stream":"yes")", "body.stream", kSchema},
      {R"("stream_options":{})", "stream_options"},
      {R"("stream_options":{"include_usage":1},"stream":true)", "body.stream_options.include_usage",
       kSchema},
      {R"("stream_interval":0)", "stream_interval"},
      {R"("truncate_prompt_tokens":-2)", "truncate_prompt_tokens"},
      {R"("truncate_prompt_tokens":65)", "truncate_prompt_tokens"},
      {R"("truncation_side":"middle")", "body.truncation_side", kSchema},
      {R"("cache_salt":"")", "cache_salt"},
      {R"("cache_salt":"a/b")", "cache_salt"},
      {R"("priority":"high")", "body.priority", kSchema},
      {R"("model":7)", "body.model", kSchema},
  };
  for (const BadField& bad : cases) expect_both(bad);
}

TEST_F(Validation, FieldsThatAreNotBuiltAreRefusedByNameUnlessNeutral) {
  for (const char* field :
       {R"("response_format":{"type":"json_object"})", R"("structured_outputs":{"regex":"a"})",
        R"("logprob_token_ids":[1])", R"("detokenize":false,"stop":["x"])",  // BL-025
        R"("thinking_token_budget":5)", R"("use_beam_search":true)", R"("length_penalty":0.5)",
        R"("repetition_detection":{})", R"("vllm_xargs":{"a":1})", R"("suffix":"x")"}) {
    const std::string text(field);
    const std::string name = text.substr(1, text.find('"', 1) - 1);
    expect_both({field, name.c_str()});
  }
  // BL-109: never half applied.
  const Json guided = error(post_chat_completions, chat(R"("guided_json":{"type":"object"})"));
  EXPECT_NE(guided["message"].get<std::string>().find("structured_outputs"), std::string::npos);
  ok(post_chat_completions,
     chat(R"("response_format":{"type":"text"},"structured_outputs":null,"bad_words":[],
             "use_beam_search":false,"length_penalty":1.0,"thinking_token_budget":-1,"suffix":null,
             "guided_json":null,"tool_choice":"none","tools":null,"user":"u","store":true,
             "metadata":{"a":"b"},"service_tier":"auto","best_of":3,"num_ctx":5,"grammar":"x")"));
}

TEST_F(Validation, ToolsAreServedOnlyWithoutCalls) {
  const std::string tool = R"("tools":[{"type":"function","function":{"name":"f"}}])";
  EXPECT_EQ(error(post_chat_completions, chat(tool))["param"], "tools");
  EXPECT_EQ(error(post_chat_completions, chat(tool + R"(,"tool_choice":"auto")"))["param"],
            "tools");
  EXPECT_EQ(error(post_chat_completions, chat(R"("tools":[])"))["param"], "tools");
  EXPECT_EQ(error(post_chat_completions, chat(R"("tool_choice":"auto")"))["param"], "tool_choice");
  ok(post_chat_completions, chat(tool + R"(,"tool_choice":"none")"));
}

TEST_F(Validation, LogprobLimits) {  // BL-047 … BL-049
  EXPECT_EQ(error(post_chat_completions, chat(R"("top_logprobs":5)"))["param"], "top_logprobs");
  EXPECT_EQ(error(post_chat_completions, chat(R"("top_logprobs":5,"logprobs":false)"))["param"],
            "top_logprobs");
  for (const char* n : {"21", "16384", "-2"}) {
    EXPECT_EQ(error(post_chat_completions,
                    chat(fmt::format(R"("logprobs":true,"top_logprobs":{})", n)))["param"],
              "top_logprobs");
    EXPECT_EQ(error(post_completions, completion(fmt::format(R"("logprobs":{})", n)))["param"],
              "logprobs");
  }
  ok(post_chat_completions, chat(R"("logprobs":true,"top_logprobs":20)"));
}

TEST_F(Validation, BadMessagesAreRefused) {
  const struct {
    const char* body;
    const char* param;
  } cases[] = {
      {R"({})", "body.messages"},
      {R"({"messages":null})", "body.messages"},
      {R"({"messages":"hi"})", "body.messages"},
      {R"({"messages":[]})", "messages"},  // BL-029
      {R"({"messages":[5]})", "body.messages.0"},
      {R"({"messages":[{"content":"x"}]})", "body.messages.0.role"},
      {R"({"messages":[{"role":1,"content":"x"}]})", "body.messages.0.role"},
      {R"({"messages":[{"role":"user","content":5}]})", "body.messages.0.content"},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})",
       "body.messages.0.content.0.text"},
      {R"({"messages":[{"role":"user","content":[{"type":"what","text":"x"}]}]})",
       "body.messages.0.content.0.type"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x"}}]}]})",
       "messages"},  // BL-107
      {R"({"messages":[{"role":"assistant","tool_calls":[{"id":"x"}]}]})",
       "body.messages.0.tool_calls.0.function"},
      {R"({"messages":[{"role":"user","content":"x"}],"continue_final_message":true,"add_generation_prompt":true})",
       "continue_final_message"},
      {R"({"messages":[{"role":"user","content":"x"}],"reasoning_effort":"huge"})",
       "body.reasoning_effort"},
  };
  for (const auto& c : cases) EXPECT_EQ(error(post_chat_completions, c.body)["param"], c.param);
  EXPECT_TRUE(error(post_chat_completions, chat(R"("chat_template":"x")"))["param"].is_null());
}

TEST_F(Validation, BadPromptsAreRefusedAndTheNextRequestWorks) {  // BL-029, BL-030
  for (const char* prompt :
       {R"("")", R"([""])", "[]", "[[]]", "[-1]", "[[-1]]", "[[1.5]]", R"(["a",5])", "[[300]]",
        "[[2147483648]]", "[[true]]", "null", "5", R"({"a":1})", "[null]", "[[[1]]]", R"([5,"a"])",
        R"([["a"]])", "[9223372036854775808]"}) {
    error(post_completions, fmt::format(R"({{"prompt":{}}})", prompt));
  }
  std::string many = R"({"prompt":["a")";
  for (int i = 0; i < 1024; ++i) many += R"(,"a")";
  EXPECT_EQ(error(post_completions, many + "]}")["param"], "prompt");
  ok(post_completions, completion(""));
}

TEST_F(Validation, ContextLimitsNameAllThreeNumbers) {  // BL-087, BL-088
  const auto prompt = [](size_t n) {
    return fmt::format(R"({{"prompt":"{}","max_tokens":7)", std::string(n, 'x'));
  };
  for (const char* mode : {"}", R"(,"stream":true})"}) {
    const Json e = error(post_completions, prompt(70) + mode);
    EXPECT_EQ(e["param"], "input_tokens");
    const auto message = e["message"].get<std::string>();
    for (const char* number : {"64", "70", "7 output"}) {
      EXPECT_NE(message.find(number), std::string::npos) << message;
    }
  }
  EXPECT_EQ(error(post_completions, prompt(64) + "}")["param"], "max_tokens");
  EXPECT_EQ(ok(post_completions, prompt(57) + "}")["usage"]["total_tokens"], 64);
  EXPECT_EQ(ok(post_completions, prompt(58) + "}")["usage"]["completion_tokens"], 6);
  EXPECT_EQ(error(post_completions, prompt(5000) + "}")["param"], "input_text");
}

TEST_F(Validation, HostileBodiesCostTheirSenderOnly) {
  const struct {
    std::string body;
    std::string param;
  } cases[] = {
      {"", "body.0"},
      {"{", "body.1"},
      {R"({"prompt":"x",})", "body.14"},
      {"[1]", "body"},
      {"\"x\"", "body"},
      {"{\"prompt\":\"\xC4\xE3\xBA\xC3\"}", "body"},                      // BL-005
      {R"({"prompt":"x","stream":false,"stream":true})", "body.stream"},  // BL-104
      {R"({"prompt":"x","model":"tiny","model":"alias"})", "body.model"},
      {R"({"prompt":"x","model":"tiny","mo\u0064el":"alias"})", "body.model"},
      {R"({"prompt":"x","metadata":{"a":{"b":1,"b":2}}})", "body.b"},
      {R"({"prompt":"x","extra":)" + std::string(100000, '[') + "}", "body"},  // BL-103
      {R"({"prompt":)" + std::string(100000, '[') + std::string(100000, ']') + "}", "body"},
  };
  for (const auto& c : cases) {
    const Json e = error(post_completions, c.body);
    EXPECT_EQ(e["param"], c.param) << c.body.substr(0, 80);
    EXPECT_EQ(e["type"], kSchema);
    EXPECT_EQ(e["message"].get<std::string>().rfind("1 validation error:", 0), 0u);
  }
}

TEST_F(Validation, BL105_ErrorsOfALargeBodyStaySmall) {
  std::string body = R"({"prompt":5,"n":")" + std::string(1 << 20, '\x7F') + R"(","seed":[1)";
  for (int i = 0; i < 100000; ++i) body += ",1";
  body += R"(],"temperature":{},"top_p":"x","top_k":[],"min_p":{},"stream":"x","stop":5,"echo":1,
             "user":1,"max_tokens":"x","min_tokens":"x","logit_bias":1,"model":[]})";
  const Json e = error(post_completions, body);
  const auto message = e["message"].get<std::string>();
  EXPECT_EQ(message.rfind("14 validation errors:", 0), 0u) << message;
  EXPECT_LE(std::count(message.begin(), message.end(), '\n'), 10);
  EXPECT_NE(message.find("a list of 100001"), std::string::npos);
}

TEST_F(Validation, ContentTypeMustBeJson) {
  auto exchange = std::make_shared<FakeExchange>();
  HttpRequest request;
  request.body = completion("");
  post_completions(api_, std::move(request), exchange);
  EXPECT_EQ(exchange->response.status, 400);
  const Json e = Json::parse(exchange->response.body)["error"];
  EXPECT_EQ(e["type"], kSchema);
  EXPECT_TRUE(e["param"].is_null());
}

TEST_F(Validation, UnknownModelIsNotFoundAndNamesTheServedOnes) {
  const Json e = error(post_chat_completions, chat(R"("model":"gpt-9")"), 404);
  EXPECT_EQ(e["type"], "NotFoundError");
  EXPECT_EQ(e["param"], "model");
  EXPECT_EQ(e["message"], "The model `gpt-9` does not exist. Served: `tiny`, `alias`");
  for (const char* model : {R"("")", "null", R"("alias")"}) {
    ok(post_chat_completions, chat(fmt::format(R"("model":{})", model)));
  }
}

TEST_F(Validation, ParametersReachTheEngine) {
  ok(post_completions,
     completion(R"("temperature":0.001,"top_k":-1,"seed":-1,"logit_bias":{"5":1000,"6":-1000},
                   "stop_token_ids":[7],"max_tokens":3,"min_tokens":2,"top_p":0.5)"));
  ok(post_completions, completion(R"("temperature":1e-6,"top_p":0.5,"top_k":5,"min_p":0.5)"));
  const auto added = engine_->added();
  const auto& s = added[0].sampling;
  EXPECT_FLOAT_EQ(s.temperature, 0.01f);  // BL-041
  EXPECT_EQ(s.top_k, 0);
  EXPECT_FALSE(s.seed.has_value());
  ASSERT_EQ(s.logit_bias.size(), 2u);
  EXPECT_EQ(s.logit_bias[0], (std::pair<engine::TokenId, float>(5, 100.0f)));
  EXPECT_EQ(s.logit_bias[1], (std::pair<engine::TokenId, float>(6, -100.0f)));
  EXPECT_EQ(s.stop_token_ids, std::vector<engine::TokenId>{7});
  EXPECT_EQ(s.min_tokens, 2);
  EXPECT_EQ(added[1].sampling.temperature, 0.0f);
  EXPECT_EQ(added[1].sampling.top_p, 1.0f);
  EXPECT_EQ(added[1].sampling.top_k, 0);
}

TEST_F(Validation, GenerationConfigGivesDefaultsACapAndStopTokens) {
  api_.default_sampling_json =
      R"({"temperature":0.5,"top_k":40,"max_new_tokens":4,"eos_token_id":[257,258]})";
  const Json answer = ok(post_chat_completions, chat(""));
  EXPECT_EQ(answer["usage"]["completion_tokens"], 4);
  ok(post_chat_completions, chat(R"("temperature":0.25,"ignore_eos":true)"));
  const auto added = engine_->added();
  EXPECT_FLOAT_EQ(added[0].sampling.temperature, 0.5f);
  EXPECT_EQ(added[0].sampling.top_k, 40);
  EXPECT_EQ(added[0].sampling.stop_token_ids, std::vector<engine::TokenId>{258});
  EXPECT_FLOAT_EQ(added[1].sampling.temperature, 0.25f);
  EXPECT_TRUE(added[1].sampling.stop_token_ids.empty());
}

TEST_F(Validation, TruncationKeepsTheAskedSide) {
  ok(post_completions, R"({"prompt":"abcdef","truncate_prompt_tokens":2})");
  ok(post_completions,
     R"({"prompt":"abcdef","truncate_prompt_tokens":2,"truncation_side":"right"})");
  ok(post_completions,
     fmt::format(R"({{"prompt":"{}","truncate_prompt_tokens":-1}})", std::string(5000, 'x')));
  const auto added = engine_->added();
  EXPECT_EQ(added[0].prompt, bytes("ef"));
  EXPECT_EQ(added[1].prompt, bytes("ab"));
  EXPECT_EQ(added[2].prompt.size(), 63u);
}

TEST_F(Validation, ErrorsSayHowLongATextIsAndNotWhatItSays) {
  const std::string message =
      error(post_chat_completions, R"({"messages":"my secret text"})")["message"];
  EXPECT_EQ(message.find("secret"), std::string::npos) << message;
  EXPECT_NE(message.find("a string of 14 bytes"), std::string::npos) << message;
  for (const char* body :
       {R"({"prompt":["a",{"x":"my secret"}]})", R"({"prompt":[1,"my secret"]})",
        R"({"prompt":{"x":"my secret"}})", R"({"prompt":"a","stop":{"my secret":1}})"}) {
    EXPECT_EQ(error(post_completions, body).dump().find("secret"), std::string::npos) << body;
  }
  EXPECT_NE(
      error(post_completions, completion(R"("n":"three")"))["message"].get<std::string>().find(
          "'three'"),
      std::string::npos);
}

TEST_F(Validation, PromptsTimesSamplesAreBounded) {
  config_.frontend.max_n_sequences = 4;
  EXPECT_EQ(error(post_completions, R"({"prompt":["a","b","c"],"n":2})")["param"], "n");
  EXPECT_EQ(error(post_completions, R"({"prompt":"a","n":5})")["param"], "n");
  EXPECT_EQ(ok(post_completions, R"({"prompt":["a","b"],"n":2})")["choices"].size(), 4u);
}

TEST_F(Validation, LimitsComeFromTheConfiguration) {
  config_.frontend.max_completion_prompts = 1;
  config_.frontend.max_stop_strings = 5;
  EXPECT_EQ(error(post_completions, R"({"prompt":["a","b"]})")["param"], "prompt");
  ok(post_completions, completion(R"("stop":["1","2","3","4","5"])"));
  EXPECT_EQ(error(post_completions, completion(R"("stop":["1","2","3","4","5","6"])"))["param"],
            "stop");
  const std::string other = completion(R"("model":"other")");
  EXPECT_EQ(error(post_completions, other, 404)["param"], "model");
  config_.frontend.skip_model_name_validation = true;
  ok(post_completions, other);
}

TEST_F(Validation, ListsOfIdsHoldEachOnce) {
  ok(post_completions, completion(R"("allowed_token_ids":[104,104,103,104],"stop_token_ids":[7,7],
                                     "logit_bias":{"5":1,"+5":2,"05":3,"4":9})"));
  const engine::SamplingParams s = engine_->added().at(0).sampling;
  EXPECT_EQ(s.allowed_token_ids, (std::vector<engine::TokenId>{103, 104}));
  EXPECT_EQ(s.stop_token_ids, std::vector<engine::TokenId>{7});
  ASSERT_EQ(s.logit_bias.size(), 2u);
  EXPECT_EQ(s.logit_bias[1], (std::pair<engine::TokenId, float>(5, 3.0f)));
}

TEST_F(Validation, TokenizingMoreThanAContextHoldsIsRefused) {
  const std::string text(1024, 'x');  // 64 tokens of at most 16 bytes
  ok(post_tokenize, R"({"prompt":")" + text + R"("})");
  EXPECT_EQ(error(post_tokenize, R"({"prompt":")" + text + R"(x"})")["param"], "input_text");
  std::string ids = "1";
  for (int i = 0; i < 1024; ++i) ids += ",1";
  EXPECT_EQ(error(post_detokenize, R"({"tokens":[)" + ids + "]}")["param"], "input_text");
}

TEST_F(Validation, BadArgumentsOfToolCallsGiveOneDebugLine) {
  std::string calls;
  for (int i = 0; i < 50; ++i) {
    calls += std::string(i ? "," : "") + R"({"function":{"name":"f","arguments":"no json"}})";
  }
  const std::string body =
      R"({"messages":[{"role":"assistant","content":"","tool_calls":[)" + calls + "]}]}";
  const auto lines_at = [&](log::Level level) {
    log::flush();
    log::set_level(level);
    ::testing::internal::CaptureStdout();
    ok(post_chat_completions, body);
    log::flush();
    const std::string text = ::testing::internal::GetCapturedStdout();
    log::set_level(log::Level::kInfo);
    size_t count = 0;
    for (size_t at = 0; (at = text.find("Arguments of", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(lines_at(log::Level::kInfo), 0u);
  EXPECT_EQ(lines_at(log::Level::kDebug), 1u);
}

TEST_F(Validation, PromptsOfOneCallAreAdmittedTogetherOrNotAtAll) {
  config_.engine.scheduler.max_num_queued_reqs = 2;
  start();
  EXPECT_EQ(error(post_completions, R"({"prompt":["a","b","c"]})", 503)["type"],
            "Service Unavailable");
  EXPECT_TRUE(engine_->added().empty());
  EXPECT_EQ(frontend_->num_unfinished(), 0);
  ok(post_completions, R"({"prompt":["a","b"]})");
  const auto aborted = static_cast<int>(engine::FinishReason::kAbort);
  EXPECT_EQ(frontend_->metrics().value(observability::MetricId::kRequestSuccess, aborted), 0);
}

TEST_F(Validation, LoadIsReportedToThoseWhoAsk) {
  for (const auto& [format, want] :
       {std::pair("text", "TEXT named_metrics.kv_cache_usage_perc=0"),
        std::pair("JSON", R"(JSON {"named_metrics": {"kv_cache_usage_perc": 0)")}) {
    for (const bool is_chat : {true, false}) {
      const HttpResponse r =
          post(is_chat ? post_chat_completions : post_completions,
               is_chat ? chat("") : completion(""), {{"endpoint-load-metrics-format", format}});
      ASSERT_EQ(r.headers.size(), 1u);
      EXPECT_EQ(r.headers[0].first, "endpoint-load-metrics");
      EXPECT_TRUE(r.headers[0].second.starts_with(want)) << r.headers[0].second;
    }
  }
  EXPECT_TRUE(post(post_completions, completion("")).headers.empty());
}

TEST_F(Validation, AHandlerThatThrowsEndsItsGeneration) {
  engine_->hold = true;
  engine_->hold_after = 1;
  auto exchange = send(post_completions, completion(R"("stream":true,"max_tokens":50)"));
  exchange->throws = true;
  engine_->hold = false;
  for (int i = 0; i < 5000 && frontend_->num_unfinished() > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(frontend_->num_unfinished(), 0);
}

}  // namespace
}  // namespace octavo::openai
