#include "openai/openai_test_fixture.h"

namespace octavo::openai {
namespace {

std::string keys(const nlohmann::ordered_json& object) {
  std::string out;
  for (const auto& [key, value] : object.items()) out += (out.empty() ? "" : " ") + key;
  return out;
}

class Completions : public ApiTest {};

TEST_F(Completions, AnswerHasTheExactShape) {
  const Json a = ok(post_completions, R"({"prompt":"hi"})");
  EXPECT_EQ(keys(a),
            "id object created model choices service_tier system_fingerprint usage "
            "kv_transfer_params ec_transfer_params metrics");
  EXPECT_EQ(keys(a["choices"][0]),
            "index text logprobs finish_reason stop_reason token_ids prompt_logprobs "
            "prompt_token_ids routed_experts weight_versions");
  EXPECT_EQ(a["id"].get<std::string>().rfind("cmpl-", 0), 0u);
  EXPECT_EQ(a["object"], "text_completion");
  EXPECT_EQ(a["choices"][0]["text"], "hello world.");
}

TEST_F(Completions, DefaultIs16Tokens) {
  script_ = bytes("a");
  start();
  const Json a = ok(post_completions, R"({"prompt":"hi","max_tokens":null})");
  EXPECT_EQ(a["usage"]["completion_tokens"], 16);
  EXPECT_EQ(a["choices"][0]["finish_reason"], "length");
}

TEST_F(Completions, BL031_ChoicesOfSeveralPromptsComeInOrder) {
  script_.clear();  // each prompt is repeated
  start();
  const std::string body = R"({"prompt":["Hello","Goodbye",[84,101]],"max_tokens":2,"n":2)";
  const Json a = ok(post_completions, body + "}");
  ASSERT_EQ(a["choices"].size(), 6u);
  const char* expected[] = {"He", "He", "Go", "Go", "Te", "Te"};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(a["choices"][i]["index"], i);
    EXPECT_EQ(a["choices"][i]["text"], expected[i]);
  }
  EXPECT_EQ(a["usage"]["prompt_tokens"], 14);
  EXPECT_EQ(a["usage"]["completion_tokens"], 12);
  std::map<int, std::string> streamed;
  for (const Json& event : stream(post_completions, body + R"(,"stream":true})")) {
    for (const Json& c : event["choices"]) {
      streamed[c["index"].get<int>()] += c["text"].get<std::string>();
    }
  }
  for (int i = 0; i < 6; ++i) EXPECT_EQ(streamed[i], expected[i]);
}

TEST_F(Completions, StreamChunksHaveTheExactShape) {
  const auto events = stream(post_completions, R"({"prompt":"hi","stream":true,"max_tokens":3})");
  std::string text;
  for (const Json& event : events) {
    EXPECT_EQ(event["object"], "text_completion");
    EXPECT_EQ(keys(event["choices"][0]),
              "index text logprobs finish_reason stop_reason prompt_token_ids token_ids "
              "weight_versions");
    text += event["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(text, "hel");
  EXPECT_EQ(keys(events.back()),
            "id object created model choices system_fingerprint "
            "kv_transfer_params");
}

TEST_F(Completions, BL046_LogprobsZeroGivesTheChosenTokens) {
  const Json a = ok(post_completions, R"({"prompt":"hi","logprobs":0,"max_tokens":3})");
  EXPECT_EQ(a["choices"][0]["logprobs"].dump(),
            R"({"text_offset":[0,1,2],"token_logprobs":[-0.5,-0.5,-0.5],"tokens":["h","e","l"],)"
            R"("top_logprobs":[{"h":-0.5},{"e":-0.5},{"l":-0.5}]})");
}

TEST_F(Completions, TextLogprobsHaveOneMoreThanAsked) {
  const Json a = ok(post_completions, R"({"prompt":"hi","logprobs":2,"max_tokens":2})");
  const Json& top = a["choices"][0]["logprobs"]["top_logprobs"];
  EXPECT_EQ(top[1].dump(), R"({"e":-0.5,"h":-0.5,"x":-1.5})");
  EXPECT_EQ(top[0].dump(), R"({"h":-0.5,"x":-1.5})");
}

TEST_F(Completions, BL050_EchoWithLogprobsCoversThePromptFirst) {
  const Json a =
      ok(post_completions, R"({"prompt":[97,98,99],"echo":true,"logprobs":1,"max_tokens":1})");
  const Json& choice = a["choices"][0];
  EXPECT_EQ(choice["text"], "abch");
  EXPECT_EQ(choice["logprobs"]["tokens"].dump(), R"(["a","b","c","h"])");
  EXPECT_EQ(choice["logprobs"]["token_logprobs"].dump(), "[null,-0.5,-0.5,-0.5]");
  EXPECT_EQ(choice["logprobs"]["text_offset"].dump(), "[0,1,2,3]");
  EXPECT_TRUE(choice["logprobs"]["top_logprobs"][0].is_null());
}

TEST_F(Completions, BL052_StreamedEchoIsInTheFirstChunkAndTotalsAgree) {
  const std::string body = R"({"prompt":"abc","echo":true,"logprobs":1,"max_tokens":3)";
  const Json whole = ok(post_completions, body + "}")["choices"][0];
  std::string text;
  std::map<std::string, Json> joined;
  const auto events = stream(post_completions, body + R"(,"stream":true})");
  for (const Json& event : events) {
    const Json& choice = event["choices"][0];
    text += choice["text"].get<std::string>();
    for (const auto& [key, values] : choice["logprobs"].items()) {
      for (const Json& value : values) joined[key].push_back(value);
    }
  }
  EXPECT_EQ(events[0]["choices"][0]["text"].get<std::string>().substr(0, 3), "abc");
  EXPECT_EQ(text, whole["text"]);
  for (const auto& [key, values] : whole["logprobs"].items()) EXPECT_EQ(joined[key], values) << key;
}

TEST_F(Completions, BL027_EchoAloneGivesNoNewTokens) {
  const std::string body = R"({"prompt":"abc","echo":true,"logprobs":1,"max_tokens":0)";
  const Json a = ok(post_completions, body + "}");
  EXPECT_EQ(a["choices"][0]["text"], "abc");
  EXPECT_EQ(a["choices"][0]["logprobs"]["tokens"].size(), 3u);
  EXPECT_EQ(a["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(a["usage"]["completion_tokens"], 0);
  const auto events = stream(post_completions, body + R"(,"stream":true})");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["choices"][0]["text"], "abc");
}

TEST_F(Completions, PromptLogprobsHaveRankAndText) {
  const Json a = ok(post_completions, R"({"prompt":"ab","prompt_logprobs":1,"max_tokens":1})");
  EXPECT_EQ(a["choices"][0]["prompt_logprobs"].dump(),
            R"([null,{"98":{"logprob":-0.5,"rank":1,"decoded_token":"b"},)"
            R"("104":{"logprob":-0.5,"rank":1,"decoded_token":"h"}}])");
}

TEST_F(Completions, BL011_TokensOfAnEchoJoinToThePrompt) {
  for (const std::string prompt : {" lead", "lead"}) {
    const Json a = ok(post_completions,
                      R"({"prompt":")" + prompt + R"(","echo":true,"max_tokens":1,"logprobs":0})");
    const Json& logprobs = a["choices"][0]["logprobs"];
    std::string joined;
    for (size_t i = 0; i < prompt.size(); ++i) joined += logprobs["tokens"][i].get<std::string>();
    EXPECT_EQ(joined, prompt);
    EXPECT_EQ(logprobs["text_offset"][0], 0);
  }
}

TEST_F(Completions, CachedTokensAreAlwaysInUsage) {
  engine_->num_cached_tokens = 1;
  EXPECT_EQ(
      ok(post_completions,
         R"({"prompt":"hi","max_tokens":1})")["usage"]["prompt_tokens_details"]["cached_tokens"],
      1);
}

TEST_F(Completions, FullQueueIs503WithRetryAfterAndNothingIsLeft) {
  engine_->refuse_after = 1;
  engine_->hold = true;
  const HttpResponse r = post(post_completions, R"({"prompt":["a","b","c"]})");
  EXPECT_EQ(r.status, 503);
  EXPECT_EQ(Json::parse(r.body)["error"]["type"], "Service Unavailable");
  EXPECT_EQ(r.headers[0].first, "Retry-After");
  engine_->hold = false;
  for (int i = 0; i < 2000 && frontend_->num_unfinished() > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(frontend_->num_unfinished(), 0);
}

TEST_F(Completions, TokenizeAndDetokenizeRoundTrip) {
  const Json t = ok(post_tokenize, R"({"prompt":"hi<|im_end|>","return_token_strs":true})");
  EXPECT_EQ(t.dump(), R"({"count":3,"max_model_len":64,"tokens":[104,105,259],)"
                      R"("token_strs":["h","i","<|im_end|>"]})");
  EXPECT_EQ(ok(post_detokenize, R"({"tokens":[104,105,259]})").dump(),
            R"({"prompt":"hi<|im_end|>"})");
  EXPECT_TRUE(ok(post_tokenize, R"({"prompt":""})")["token_strs"].is_null());
  EXPECT_EQ(error(post_detokenize, R"({"tokens":[-1]})")["param"], "tokens");
  EXPECT_EQ(error(post_detokenize, R"({"tokens":[99999999]})")["param"], "tokens");
  EXPECT_EQ(error(post_detokenize, R"({"tokens":"x"})")["param"], "body.tokens");
  EXPECT_EQ(error(post_tokenize, R"({})")["param"], "body.prompt");
  EXPECT_EQ(error(post_tokenize, R"({"prompt":"x","model":"no"})", 404)["param"], "model");
}

}  // namespace
}  // namespace octavo::openai
