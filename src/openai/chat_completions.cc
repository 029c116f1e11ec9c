#include <algorithm>
#include <utility>

#include "openai/chat_request.h"
#include "openai/generation_task.h"
#include "openai/handler.h"
#include "openai/response_parts.h"

namespace octavo::openai {
namespace {

using frontend::Delta;

/// One chat request on its way, in the shapes of vLLM's chat route.
class ChatTask final : public GenerationTask {
 public:
  ChatTask(const ApiContext& api, std::shared_ptr<Exchange> exchange, ChatRequest request,
           ChatPrompt prompt, std::string id)
      : GenerationTask(api, std::move(exchange), request.common.stream),
        request_(std::move(request)),
        common_(request_.common),
        prompt_(std::move(prompt)),
        names_{api.frontend->tokenizer(), common_.tokens_as_token_ids},
        choices_(static_cast<size_t>(common_.n)) {
    const auto& options = request_.prompt.options;
    const auto& last = request_.prompt.messages.back();
    role_ = options.add_generation_prompt ? api.config->frontend.response_role : last.role;
    if (common_.echo && last.role == role_) echo_text_ = frontend::content_text(last);
    head_ = head(id);
  }

 protected:
  void on_delta(size_t, Delta&& delta, std::string& events) override {
    Choice& choice = choices_[static_cast<size_t>(delta.index)];
    choice.num_generated = delta.num_generated_tokens;
    if (delta.index == 0) num_cached_tokens_ = delta.num_cached_tokens;
    if (!common_.stream) {
      choice.answer = std::move(delta);
      return;
    }
    if (!choice.started) {
      choice.started = true;
      write_role_chunk(delta.index, events);
      if (!echo_text_.empty()) write_echo_chunk(delta.index, events);
    }
    if (delta.text.empty() && delta.token_ids.empty() && !delta.finish_reason) return;
    write_chunk(delta, events);
  }

  void on_end(std::string& events) override {
    if (!common_.include_usage) return;
    JsonWriter w = begin_chunk(events);
    w.begin_array().end_array().key("usage");
    write_usage(w, total_usage(), /*with_nulls=*/false);
    w.key("system_fingerprint").string(api_.system_fingerprint);
    end_chunk(w, events);
  }

  HttpResponse response() override {
    HttpResponse out;
    JsonWriter w(out.body);
    w.raw(head_).raw_key("choices").begin_array();
    for (const Choice& choice : choices_) write_choice(w, choice.answer);
    w.end_array();
    w.key("service_tier").null().key("system_fingerprint").string(api_.system_fingerprint);
    w.key("usage");
    write_usage(w, total_usage(), /*with_nulls=*/true);
    w.key("prompt_logprobs");
    write_prompt_logprobs(w, names_, choices_.front().answer.prompt_logprobs);
    write_prompt_fields(w);
    w.key("kv_transfer_params").null().key("ec_transfer_params").null().key("metrics").null();
    w.end_object();
    append_load_header(common_.load_format, api_, out);
    return out;
  }

 private:
  struct Choice {
    bool started = false;
    int64_t num_generated = 0;
    Delta answer;  // not streaming
  };

  /// The part that all chunks, or the response, begin with: an open object up to the model.
  std::string head(const std::string& id) const {
    std::string out;
    JsonWriter w(out);
    w.begin_object().key("id").string(id).key("object");
    w.string(common_.stream ? "chat.completion.chunk" : "chat.completion");
    w.key("created").integer(static_cast<int64_t>(api_.clock->wall_s()));
    w.key("model").string(served_name(api_));
    return out;
  }

  void write_prompt_fields(JsonWriter& w) const {
    w.key("prompt_token_ids");
    write_token_ids(w, common_.return_token_ids, prompt_.ids);
    w.key("prompt_text");
    if (request_.return_prompt_text) {
      w.string(prompt_.text);
    } else {
      w.null();
    }
  }

  void write_logprobs(JsonWriter& w, const Delta& delta) const {
    w.key("logprobs");
    if (common_.sampling.logprobs) {
      write_chat_logprobs(w, names_, delta.logprobs, *common_.sampling.logprobs);
    } else {
      w.null();
    }
  }

  void write_choice(JsonWriter& w, const Delta& delta) const {
    w.begin_object().key("index").integer(delta.index);
    w.key("message").begin_object().key("role").string(role_);
    w.key("content").string(echo_text_.empty() ? delta.text : echo_text_ + delta.text);
    for (const char* name : {"refusal", "annotations", "audio", "function_call", "reasoning"}) {
      w.key(name).null();
    }
    w.end_object();
    write_logprobs(w, delta);
    write_finish(w, delta);
    w.key("token_ids");
    write_token_ids(w, common_.return_token_ids, delta.token_ids);
    w.key("routed_experts").null().key("weight_versions").null().end_object();
  }

  JsonWriter begin_chunk(std::string& events) const {
    events += "data: ";
    JsonWriter w(events);
    w.raw(head_).raw_key("choices");
    return w;
  }
  static void end_chunk(JsonWriter& w, std::string& events) {
    w.end_object();
    events += "\n\n";
  }
  void write_running_usage(JsonWriter& w, int64_t num_generated) const {
    if (!common_.continuous_usage) return;
    w.key("usage");
    const auto num_prompt_tokens = static_cast<int64_t>(prompt_.ids.size());
    write_usage(w, {num_prompt_tokens, num_generated, num_cached_tokens_}, /*with_nulls=*/false);
  }

  void write_role_chunk(int32_t index, std::string& events) const {
    JsonWriter w = begin_chunk(events);
    w.begin_array().begin_object().key("index").integer(index);
    w.key("delta").begin_object().key("role").string(role_).key("content").string("").end_object();
    w.key("logprobs").null().key("finish_reason").null().end_object().end_array();
    write_running_usage(w, 0);
    write_prompt_fields(w);
    end_chunk(w, events);
  }

  void write_echo_chunk(int32_t index, std::string& events) const {
    JsonWriter w = begin_chunk(events);
    w.begin_array().begin_object().key("index").integer(index);
    w.key("delta").begin_object().key("content").string(echo_text_).end_object();
    w.key("logprobs").null().key("finish_reason").null().end_object().end_array();
    write_running_usage(w, 0);
    end_chunk(w, events);
  }

  void write_chunk(const Delta& delta, std::string& events) const {
    JsonWriter w = begin_chunk(events);
    w.begin_array().begin_object().key("index").integer(delta.index);
    w.key("delta").begin_object().key("content").string(delta.text).end_object();
    write_logprobs(w, delta);
    w.key("finish_reason");
    write_finish_reason(w, delta.finish_reason);
    if (delta.finish_reason) {
      w.key("stop_reason");
      write_stop_reason(w, delta.stop_reason);
    }
    w.key("token_ids");
    write_token_ids(w, common_.return_token_ids, delta.token_ids);
    if (delta.finish_reason) w.key("weight_versions").null();
    w.end_object().end_array();
    write_running_usage(w, delta.num_generated_tokens);
    if (delta.finish_reason && !common_.include_usage) {
      w.key("system_fingerprint").string(api_.system_fingerprint);
    }
    w.key("kv_transfer_params").null();
    end_chunk(w, events);
  }

  Usage total_usage() const {
    Usage usage{.prompt_tokens = static_cast<int64_t>(prompt_.ids.size()),
                .cached_tokens = num_cached_tokens_};
    for (const Choice& choice : choices_) usage.completion_tokens += choice.num_generated;
    return usage;
  }

  const ChatRequest request_;
  const CommonRequest& common_;
  const ChatPrompt prompt_;
  const TokenNames names_;
  std::string role_;
  std::string echo_text_;
  std::string head_;
  int64_t num_cached_tokens_ = 0;
  std::vector<Choice> choices_;
};

}  // namespace

void post_chat_completions(const ApiContext& api, HttpRequest http,
                           std::shared_ptr<Exchange> exchange) {
  handle_json(api, http, *exchange, [&](const JsonBody& body) -> Status {
    OCTAVO_TRY(ChatRequest request, parse_chat_request(body, api, http));
    const double arrival_wall_s = api.clock->wall_s();
    OCTAVO_TRY(ChatPrompt prompt, make_chat_prompt(api, request.common, request.prompt));
    const int64_t max_model_len = api.frontend->engine_info().max_model_len;
    truncate_prompt(request.common, max_model_len, prompt.ids);
    OCTAVO_TRY(fit_to_context(request.common, Route::kChat, static_cast<int64_t>(prompt.ids.size()),
                              max_model_len));
    const std::string id = "chatcmpl-" + request.common.request_id;
    std::vector<frontend::GenerateRequest> requests;
    requests.push_back(make_generate_request(request.common, id, prompt.ids,
                                             request.common.sampling, arrival_wall_s));
    auto task =
        std::make_shared<ChatTask>(api, exchange, std::move(request), std::move(prompt), id);
    return task->start(std::move(requests));
  });
}

}  // namespace octavo::openai
