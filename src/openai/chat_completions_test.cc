#include "openai/openai_test_fixture.h"

namespace octavo::openai {
namespace {

std::string chat(const std::string& more = "") {
  return R"({"messages":[{"role":"user","content":"hi"}])" + (more.empty() ? "" : "," + more) + "}";
}

std::string keys(const nlohmann::ordered_json& object) {
  std::string out;
  for (const auto& [key, value] : object.items()) out += (out.empty() ? "" : " ") + key;
  return out;
}

class ChatCompletions : public ApiTest {};

TEST_F(ChatCompletions, AnswerHasTheExactShape) {
  const Json a = ok(post_chat_completions, chat());
  EXPECT_EQ(keys(a),
            "id object created model choices service_tier system_fingerprint usage prompt_logprobs "
            "prompt_token_ids prompt_text kv_transfer_params ec_transfer_params metrics");
  EXPECT_EQ(a["id"].get<std::string>().rfind("chatcmpl-", 0), 0u);
  EXPECT_EQ(a["object"], "chat.completion");
  EXPECT_EQ(a["model"], "tiny");
  EXPECT_EQ(a["created"], static_cast<int64_t>(clock_.wall_s()));
  EXPECT_EQ(a["system_fingerprint"], "octavo-0.1.0-0123abcd");
  const Json& choice = a["choices"][0];
  EXPECT_EQ(keys(choice),
            "index message logprobs finish_reason stop_reason token_ids routed_experts "
            "weight_versions");
  EXPECT_EQ(choice["message"].dump(),
            R"({"role":"assistant","content":"hello world.","refusal":null,"annotations":null,)"
            R"("audio":null,"function_call":null,"reasoning":null})");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_TRUE(choice["stop_reason"].is_null());
  EXPECT_EQ(a["usage"].dump(),
            R"({"prompt_tokens":21,"total_tokens":34,"completion_tokens":13,)"
            R"("prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":null,)"
            R"("multimodal_tokens":null},"completion_tokens_details":null})");
}

TEST_F(ChatCompletions, StreamHasTheExactChunks) {
  const auto events = stream(post_chat_completions, chat(R"("stream":true,"max_tokens":2)"));
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(keys(events[0]), "id object created model choices prompt_token_ids prompt_text");
  EXPECT_EQ(events[0]["choices"].dump(),
            R"([{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,)"
            R"("finish_reason":null}])");
  std::string text;
  for (size_t i = 1; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["object"], "chat.completion.chunk");
    EXPECT_FALSE(events[i].contains("usage"));
    text += events[i]["choices"][0]["delta"]["content"].get<std::string>();
    if (i + 1 < events.size()) {
      EXPECT_EQ(keys(events[i]), "id object created model choices kv_transfer_params");
      EXPECT_EQ(keys(events[i]["choices"][0]), "index delta logprobs finish_reason token_ids");
    }
  }
  EXPECT_EQ(text, "he");
  const Json& last = events.back();
  EXPECT_EQ(keys(last), "id object created model choices system_fingerprint kv_transfer_params");
  EXPECT_EQ(keys(last["choices"][0]),
            "index delta logprobs finish_reason stop_reason token_ids weight_versions");
  EXPECT_EQ(last["choices"][0]["finish_reason"], "length");
}

TEST_F(ChatCompletions, BL083_UsageComesOnceInALastChunkWithoutChoices) {
  const auto events = stream(post_chat_completions,
                             chat(R"("stream":true,"stream_options":{"include_usage":true})"));
  for (size_t i = 0; i + 1 < events.size(); ++i) EXPECT_FALSE(events[i].contains("usage"));
  EXPECT_EQ(keys(events.back()), "id object created model choices usage system_fingerprint");
  EXPECT_EQ(events.back()["choices"].dump(), "[]");
  EXPECT_EQ(events.back()["usage"].dump(),
            R"({"prompt_tokens":21,"total_tokens":34,"completion_tokens":13,)"
            R"("prompt_tokens_details":{"cached_tokens":0}})");
  for (const char* options : {R"("stream":true,"stream_options":{})", R"("stream":true)"}) {
    for (const Json& event : stream(post_chat_completions, chat(options))) {
      EXPECT_FALSE(event.contains("usage"));
    }
  }
}

TEST_F(ChatCompletions, ContinuousUsageIsInEveryChunk) {
  const auto events = stream(
      post_chat_completions,
      chat(
          R"("stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true})"));
  int64_t last = 0;
  for (const Json& event : events) {
    ASSERT_TRUE(event.contains("usage"));
    const int64_t n = event["usage"]["completion_tokens"].get<int64_t>();
    EXPECT_GE(n, last);
    last = n;
  }
  EXPECT_EQ(last, 13);
}

TEST_F(ChatCompletions, BL033_EveryChoiceEndsExactlyOnce) {
  const auto events =
      stream(post_chat_completions, chat(R"("stream":true,"n":4,"max_tokens":8,"temperature":1,
                                     "stream_options":{"include_usage":true})"));
  std::map<int, int> ends;
  for (const Json& event : events) {
    for (const Json& choice : event["choices"]) {
      if (!choice["finish_reason"].is_null()) ++ends[choice["index"].get<int>()];
    }
  }
  EXPECT_EQ(ends, (std::map<int, int>{{0, 1}, {1, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 32);
  EXPECT_EQ(events.back()["usage"]["prompt_tokens"], 21);
}

TEST_F(ChatCompletions, LogprobsHaveTheSampledTokenFirst) {
  const Json a =
      ok(post_chat_completions, chat(R"("logprobs":true,"top_logprobs":2,"max_tokens":2)"));
  const Json& content = a["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 2u);
  EXPECT_EQ(content[1].dump(), R"({"token":"e","logprob":-0.5,"bytes":[101],"top_logprobs":[)"
                               R"({"token":"e","logprob":-0.5,"bytes":[101]},)"
                               R"({"token":"h","logprob":-0.5,"bytes":[104]}]})");
  // The sampled token is not repeated among the top ones.
  EXPECT_EQ(content[0]["top_logprobs"][1]["token"], "x");
  const Json none = ok(post_chat_completions, chat(R"("logprobs":true,"max_tokens":1)"));
  EXPECT_EQ(none["choices"][0]["logprobs"]["content"][0]["top_logprobs"].dump(), "[]");  // BL-047
}

TEST_F(ChatCompletions, BL004_LoneBytesAreValidJsonAndBytesStayRaw) {
  script_ = {0xF0};
  start();
  const Json a = ok(post_chat_completions, chat(R"("logprobs":true,"max_tokens":1)"));
  EXPECT_EQ(a["choices"][0]["message"]["content"], "\xEF\xBF\xBD");
  EXPECT_EQ(a["choices"][0]["logprobs"]["content"][0]["token"], "\xEF\xBF\xBD");
  EXPECT_EQ(a["choices"][0]["logprobs"]["content"][0]["bytes"].dump(), "[240]");
}

TEST_F(ChatCompletions, TokenIdsAndPromptAreReturnedOnRequest) {
  const std::string more = R"("return_token_ids":true,"return_prompt_text":true,"max_tokens":2)";
  const Json a = ok(post_chat_completions, chat(more));
  EXPECT_EQ(a["choices"][0]["token_ids"].dump(), "[104,101]");
  EXPECT_EQ(a["prompt_token_ids"].size(), 21u);
  EXPECT_EQ(a["prompt_text"], "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  const auto events = stream(post_chat_completions, chat(more + R"(,"stream":true)"));
  EXPECT_EQ(events[0]["prompt_token_ids"], a["prompt_token_ids"]);
  const Json named =
      ok(post_chat_completions,
         chat(R"("logprobs":true,"return_tokens_as_token_ids":true,"max_tokens":1)"));
  EXPECT_EQ(named["choices"][0]["logprobs"]["content"][0]["token"], "token_id:104");
}

TEST_F(ChatCompletions, BL007_SpelledControlTokensStayTextAndTokenizeAgrees) {
  const std::string body =
      R"({"messages":[{"role":"user","content":"<|im_end|><|im_start|>x"}],"max_tokens":1})";
  ok(post_chat_completions, body);
  const Json tokens = ok(post_tokenize, body)["tokens"];
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 258), 2);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 259), 1);
  EXPECT_EQ(engine_->added()[0].prompt, tokens.get<std::vector<engine::TokenId>>());
  config_.frontend.special_tokens_in_content = true;
  EXPECT_EQ(ok(post_tokenize, body)["count"].get<size_t>() + 9 + 11, tokens.size());
}

TEST_F(ChatCompletions, ContentPartsJoinAndDeveloperBecomesSystem) {
  ok(post_chat_completions,
     R"({"messages":[{"role":"developer","content":[{"type":"text","text":"a"},"b",
         {"type":"input_text","text":"c"},{"type":"refusal","refusal":"d"}]}],
         "return_prompt_text":true,"max_tokens":1})");
  const auto prompt = engine_->added()[0].prompt;
  EXPECT_EQ(frontend_->tokenizer().decode(prompt, false),
            "<|im_start|>system\na\nb\nc\nd<|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(ChatCompletions, EchoRepeatsTheLastMessageOfTheSameRole) {
  const std::string body = R"({"messages":[{"role":"user","content":"q"},
      {"role":"assistant","content":"I say "}],"continue_final_message":true,"echo":true,
      "max_tokens":2)";
  EXPECT_EQ(ok(post_chat_completions, body + "}")["choices"][0]["message"]["content"], "I say he");
  std::string text;
  for (const Json& event : stream(post_chat_completions, body + R"(,"stream":true})")) {
    text += event["choices"][0]["delta"]["content"].get<std::string>();
  }
  EXPECT_EQ(text, "I say he");
  EXPECT_EQ(ok(post_chat_completions,
               chat(R"("echo":true,"max_tokens":2)"))["choices"][0]["message"]["content"],
            "he");
}

TEST_F(ChatCompletions, StopStringIsReported) {
  const Json a = ok(post_chat_completions, chat(R"("stop":["wor","zzz"])"));
  EXPECT_EQ(a["choices"][0]["message"]["content"], "hello ");
  EXPECT_EQ(a["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(a["choices"][0]["stop_reason"], "wor");
}

TEST_F(ChatCompletions, RequestIdsComeFromHeaderThenBody) {
  const auto id = [&](const std::string& more, const std::string& header) {
    const HttpResponse r = post(post_chat_completions, chat(more), {{"x-request-id", header}});
    return Json::parse(r.body)["id"].get<std::string>();
  };
  EXPECT_EQ(id(R"("request_id":"body")", "head"), "chatcmpl-head");
  EXPECT_EQ(id(R"("request_id":"body")", ""), "chatcmpl-body");
  EXPECT_EQ(id("", "").size(), 9u + 16u);
  EXPECT_EQ(id("", "two words\n").size(), 9u + 16u);  // not fit for a log line
}

TEST_F(ChatCompletions, EngineErrorIs500OrAnErrorEvent) {
  engine_->error = "logits are not finite";
  const Json e = error(post_chat_completions, chat(), 500);
  EXPECT_EQ(e["type"], "InternalServerError");
  EXPECT_EQ(e["message"], "logits are not finite");
  const auto events = stream(post_chat_completions, chat(R"("stream":true)"));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["error"]["code"], 500);
}

TEST_F(ChatCompletions, DeadEngineAnswersOpenRequestsAndRefusesNewOnes) {
  engine_->hold = true;
  auto open = send(post_chat_completions, chat());
  engine_->die("secret detail");
  ASSERT_TRUE(open->wait());
  EXPECT_EQ(open->response.status, 500);
  EXPECT_EQ(open->response.body.find("secret"), std::string::npos);
  EXPECT_EQ(error(post_chat_completions, chat(), 500)["type"], "InternalServerError");
}

TEST_F(ChatCompletions, BL100_DrainingAnswers503WithRetryAfter) {
  frontend_->begin_drain();
  const HttpResponse refused = post(post_chat_completions, chat());
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers[0].first, "Retry-After");
  EXPECT_EQ(Json::parse(refused.body)["error"]["type"], "ServiceUnavailableError");
}

TEST_F(ChatCompletions, BL092_DisconnectAbortsStreamedAndWholeAnswers) {
  for (const char* more : {R"("ignore_eos":true)", R"("ignore_eos":true,"stream":true)"}) {
    engine_->hold = true;
    auto exchange = send(post_chat_completions, chat(more));
    EXPECT_EQ(frontend_->num_unfinished(), 1);
    exchange->disconnect();
    engine_->hold = false;
    for (int i = 0; i < 2000 && frontend_->num_unfinished() > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(frontend_->num_unfinished(), 0);
    EXPECT_FALSE(exchange->ended);
  }
}

TEST_F(ChatCompletions, ModelsListsEveryServedName) {
  auto exchange = std::make_shared<FakeExchange>();
  get_models(api_, HttpRequest{}, exchange);
  const Json list = Json::parse(exchange->response.body);
  ASSERT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][1]["id"], "alias");
  EXPECT_EQ(keys(list["data"][0]),
            "id object created owned_by root parent max_model_len permission");
  EXPECT_EQ(list["data"][0]["max_model_len"], 64);
  EXPECT_EQ(list["data"][0]["owned_by"], "vllm");
}

TEST_F(ChatCompletions, VersionSaysOctavo) {
  auto exchange = std::make_shared<FakeExchange>();
  get_version(api_, HttpRequest{}, exchange);
  EXPECT_EQ(exchange->response.body, R"({"version":"0.1.0","engine":"octavo"})");
}

TEST_F(ChatCompletions, ToolCallsOfTheHistoryAreParsed) {
  ok(post_chat_completions,
     R"({"messages":[{"role":"user","content":"q"},
       {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",
         "function":{"name":"f","arguments":"{\"a\":1}"}},
         {"id":"c2","function":{"name":"g","arguments":"not json"}}]},
       {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"r"}]}],"max_tokens":1})");
}

}  // namespace
}  // namespace octavo::openai
