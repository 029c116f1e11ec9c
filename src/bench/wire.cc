#include "bench/wire.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;
using simdjson::dom::element;

constexpr auto kBackends = std::to_array<Backend>({
    {"vllm", Wire::kCompletions, "completions"},
    {"openai", Wire::kCompletions, "completions"},
    {"openai-chat", Wire::kChat, "chat/completions"},
    {"openai-responses", Wire::kResponses, "responses"},
    {"openai-embeddings", Wire::kEmbeddings, "embeddings", true},
    // For text CLIP and VLM2Vec send what the two backends before them do.
    {"openai-embeddings-chat", Wire::kEmbeddingsChat, "embeddings", true},
    {"openai-embeddings-clip", Wire::kEmbeddingsChat, "embeddings", true},
    {"openai-embeddings-vlm2vec", Wire::kEmbeddingsChat, "embeddings", true},
    {"infinity-embeddings", Wire::kInfinity, "embeddings", true},
    {"infinity-embeddings-clip", Wire::kInfinity, "embeddings", true},
    {"vllm-pooling", Wire::kPooling, "pooling", true},
    {"vllm-rerank", Wire::kRerank, "rerank", true},
});

Json prompt_json(const SampleRequest& request) {
  if (!request.token_ids.empty()) return request.token_ids;
  if (request.prompts.size() == 1) return request.prompts[0];
  return request.prompts;
}

/// One user turn with a list of one text part.
Json user_turn(const SampleRequest& request) {
  return Json::array(
      {{{"role", "user"},
        {"content", Json::array({{{"type", "text"}, {"text", prompt_json(request)}}})}}});
}

/// A parser for each thread: its buffers are kept from event to event.
simdjson::dom::parser& shared_parser() {
  thread_local simdjson::dom::parser parser;
  return parser;
}

/// Member `key` of an object unless it is missing or null.
std::optional<element> member(element object, std::string_view key) {
  element value;
  if (object[key].get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

/// A server's count of tokens. One that makes no sense would overflow the sums; it counts as not
/// said.
int64_t count_or(std::optional<element> value, int64_t otherwise) {
  constexpr int64_t kMost = int64_t{1} << 32;
  int64_t number = 0;
  const bool is_count =
      value && value->get(number) == simdjson::SUCCESS && number >= 0 && number <= kMost;
  return is_count ? number : otherwise;
}

std::string_view text_of(std::optional<element> value) {
  std::string_view text;
  return value && value->get(text) == simdjson::SUCCESS ? text : std::string_view();
}

std::optional<element> first_choice(element event) {
  const auto choices = member(event, "choices");
  simdjson::dom::array list;
  if (!choices || choices->get(list) != simdjson::SUCCESS || list.size() == 0) return std::nullopt;
  return *list.begin();
}

/// Whether a chat delta carries a token: content, reasoning or a call, or empty content that is not
/// the opening chunk with the role.
bool carries_token(element delta) {
  for (const char* key : {"content", "reasoning", "reasoning_content"}) {
    const auto value = member(delta, key);
    if (value && !text_of(value).empty()) return true;
  }
  const auto calls = member(delta, "tool_calls");
  simdjson::dom::array list;
  if (calls && calls->get(list) == simdjson::SUCCESS && list.size() > 0) return true;
  if (member(delta, "function_call")) return true;
  return member(delta, "content") && !member(delta, "role");
}

}  // namespace

const Backend* find_backend(std::string_view name) {
  const auto found = std::ranges::find(kBackends, name, &Backend::name);
  return found == kBackends.end() ? nullptr : &*found;
}

std::string_view backend_choices() {
  return "vllm openai openai-chat openai-responses openai-embeddings openai-embeddings-chat "
         "openai-embeddings-clip openai-embeddings-vlm2vec infinity-embeddings "
         "infinity-embeddings-clip vllm-pooling vllm-rerank";
}

std::string make_payload(const PayloadOptions& options, const SampleRequest& request) {
  Json body = {{"model", request.model.empty() ? options.model : request.model}};
  switch (options.wire) {
    case Wire::kCompletions:
      body["prompt"] = prompt_json(request);
      body["repetition_penalty"] = 1.0;
      body["max_tokens"] = request.output_len;
      body["logprobs"] = options.logprobs ? Json(*options.logprobs) : Json();
      break;
    case Wire::kChat:
      body["messages"] = user_turn(request);
      body["max_completion_tokens"] = request.output_len;
      break;
    case Wire::kResponses:
      body["input"] = prompt_json(request);
      body["max_output_tokens"] = request.output_len;
      body["stream"] = true;
      body["store"] = false;
      break;
    case Wire::kEmbeddings:
      body["input"] = prompt_json(request);
      body["truncate_prompt_tokens"] = -1;
      break;
    case Wire::kEmbeddingsChat:
      body["messages"] = user_turn(request);
      body["truncate_prompt_tokens"] = -1;
      break;
    case Wire::kInfinity:
      body["input"] = prompt_json(request);
      break;
    case Wire::kPooling:
      body["truncate_prompt_tokens"] = -1;
      body["input"] = prompt_json(request);
      break;
    case Wire::kRerank:
      body["query"] = request.prompts.empty() ? "" : request.prompts[0];
      body["documents"] = std::vector<std::string>(
          request.prompts.begin() + (request.prompts.empty() ? 0 : 1), request.prompts.end());
      body["truncate_prompt_tokens"] = -1;
      break;
  }
  if (options.wire == Wire::kCompletions || options.wire == Wire::kChat) {
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
  }
  if (options.ignore_eos) body["ignore_eos"] = true;
  if (!options.extra_body.empty() && options.wire != Wire::kRerank) {
    body.update(Json::parse(options.extra_body));
  }
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

struct AnswerReader::Impl {
  Impl(Wire wire, Outcome& outcome) : wire(wire), outcome(outcome) {}

  const Wire wire;
  Outcome& outcome;
  bool has_token = false;
  bool has_terminal = false;  // responses only
  double last_s = 0;          // when the last chunk with a token came

  void on_token(double now_s, std::string_view text) {
    if (has_token) {
      outcome.itl_s.push_back(now_s - last_s);
    } else {
      has_token = true;
      outcome.ttft_s = now_s - outcome.start_s;
    }
    last_s = now_s;
    outcome.generated_text += text;
  }

  void on_usage(element event) {
    if (const auto usage = member(event, "usage")) {
      outcome.output_tokens = count_or(member(*usage, "completion_tokens"), 0);
      outcome.prompt_len = count_or(member(*usage, "prompt_tokens"), outcome.prompt_len);
    }
    const auto metrics = member(event, "metrics");
    if (!metrics) return;
    const auto seconds = [&](const char* key) -> std::optional<double> {
      double ms = 0;
      const auto value = member(*metrics, key);
      if (!value || value->get(ms) != simdjson::SUCCESS) return std::nullopt;
      return ms / 1000;
    };
    outcome.server_queue_s = seconds("queue_time_ms");
    outcome.server_ttft_s = seconds("time_to_first_token_ms");
  }

  Status on_openai_event(element event, double now_s) {
    const auto choice = first_choice(event);
    if (!choice) {
      if (const auto error = member(event, "error")) {
        return Error{Code::kUnavailable, simdjson::minify(*error)};
      }
      on_usage(event);
      return {};
    }
    if (wire == Wire::kCompletions) {
      on_token(now_s, text_of(member(*choice, "text")));
      return {};
    }
    const auto delta = member(*choice, "delta");
    if (delta && carries_token(*delta)) on_token(now_s, text_of(member(*delta, "content")));
    return {};
  }

  Status on_responses_event(element event, double now_s) {
    const std::string_view type = text_of(member(event, "type"));
    if (type == "response.output_text.delta") {
      on_token(now_s, text_of(member(event, "delta")));
    } else if (type == "response.reasoning_text.delta") {
      on_token(now_s, {});
    } else if (type == "response.completed" || type == "response.incomplete") {
      has_terminal = true;
      const auto response = member(event, "response");
      const auto usage = response ? member(*response, "usage") : std::nullopt;
      if (usage) {
        outcome.output_tokens = count_or(member(*usage, "output_tokens"), 0);
        outcome.prompt_len = count_or(member(*usage, "input_tokens"), outcome.prompt_len);
      }
    } else if (type == "error" || type == "response.failed" || member(event, "error")) {
      return Error{Code::kUnavailable, simdjson::minify(event)};
    }
    return {};
  }
};

AnswerReader::AnswerReader(Wire wire, Outcome& outcome)
    : impl_(std::make_unique<Impl>(wire, outcome)) {}
AnswerReader::~AnswerReader() = default;

bool AnswerReader::is_stream() const {
  return impl_->wire == Wire::kCompletions || impl_->wire == Wire::kChat ||
         impl_->wire == Wire::kResponses;
}

Status AnswerReader::on_event(std::string_view data, double now_s) {
  if (data.empty() || data == "[DONE]") return {};
  element event;
  if (shared_parser().parse(data.data(), data.size()).get(event) != simdjson::SUCCESS ||
      !event.is_object()) {
    return Error{Code::kInvalidArgument, "an event of the stream is no JSON object"};
  }
  return impl_->wire == Wire::kResponses ? impl_->on_responses_event(event, now_s)
                                         : impl_->on_openai_event(event, now_s);
}

Status AnswerReader::on_body(std::string_view body, double now_s) {
  Outcome& outcome = impl_->outcome;
  outcome.ttft_s = outcome.latency_s = now_s - outcome.start_s;
  element answer;
  if (shared_parser().parse(body.data(), body.size()).get(answer) != simdjson::SUCCESS ||
      !answer.is_object()) {
    return Error{Code::kInvalidArgument, "the answer is no JSON object"};
  }
  const auto usage = member(answer, "usage");
  outcome.prompt_len = usage ? count_or(member(*usage, "prompt_tokens"), 0) : 0;
  outcome.success = true;
  return {};
}

void AnswerReader::finish() {
  Outcome& outcome = impl_->outcome;
  if (!impl_->has_token) {
    outcome.error =
        "Never received a valid chunk to calculate TTFT. This response will be marked as failed!";
    return;
  }
  outcome.latency_s = impl_->last_s - outcome.start_s;
  if (impl_->wire == Wire::kResponses && !impl_->has_terminal) {
    outcome.error =
        "Stream ended without a terminal event. This response will be marked as failed!";
    return;
  }
  outcome.success = true;
}

}  // namespace octavo::bench
