#include <algorithm>
#include <utility>

#include "openai/completion_request.h"
#include "openai/generation_task.h"
#include "openai/handler.h"
#include "openai/response_parts.h"

namespace octavo::openai {
namespace {

using frontend::Delta;
using OptionalLogprobs = std::vector<std::optional<engine::TokenLogprobs>>;

/// One text completion request, of one or more prompts, on its way. Choice p * n + s is sample s of
/// prompt p.
class CompletionTask final : public GenerationTask {
 public:
  CompletionTask(const ApiContext& api, std::shared_ptr<Exchange> exchange,
                 CompletionRequest request, std::string id)
      : GenerationTask(api, std::move(exchange), request.common.stream),
        request_(std::move(request)),
        common_(request_.common),
        echo_only_(common_.echo && common_.max_tokens == 0),
        names_{api.frontend->tokenizer(), common_.tokens_as_token_ids},
        choices_(request_.prompts.size() * static_cast<size_t>(common_.n)),
        num_cached_tokens_(request_.prompts.size(), 0) {
    JsonWriter w(head_);
    w.begin_object().key("id").string(id).key("object").string("text_completion");
    w.key("created").integer(static_cast<int64_t>(api_.clock->wall_s()));
    w.key("model").string(served_name(api_));
  }

 protected:
  void on_delta(size_t prompt, Delta&& delta, std::string& events) override {
    Choice& choice = choice_of(prompt, delta);
    if (delta.index == 0) num_cached_tokens_[prompt] = delta.num_cached_tokens;
    if (echo_only_) drop_generated(delta);
    choice.num_generated = delta.num_generated_tokens;
    if (!common_.stream) {
      choice.answer = std::move(delta);
      return;
    }
    if (choice.started && delta.text.empty() && delta.token_ids.empty() && !delta.finish_reason) {
      return;
    }
    write_chunk(prompt, choice, std::move(delta), events);
    choice.started = true;
  }

  void on_end(std::string& events) override {
    if (!common_.include_usage) return;
    events += "data: ";
    JsonWriter w(events);
    w.raw(head_).raw_key("choices").begin_array().end_array().key("usage");
    write_usage(w, total_usage(), /*with_nulls=*/false);
    w.key("system_fingerprint").string(api_.system_fingerprint).end_object();
    events += "\n\n";
  }

  HttpResponse response() override {
    HttpResponse out;
    JsonWriter w(out.body);
    w.raw(head_).raw_key("choices").begin_array();
    for (size_t prompt = 0; prompt < request_.prompts.size(); ++prompt) {
      for (int32_t sample = 0; sample < common_.n; ++sample) write_choice(w, prompt, sample);
    }
    w.end_array();
    w.key("service_tier").null().key("system_fingerprint").string(api_.system_fingerprint);
    w.key("usage");
    write_usage(w, total_usage(), /*with_nulls=*/true);
    w.key("kv_transfer_params").null().key("ec_transfer_params").null().key("metrics").null();
    w.end_object();
    append_load_header(common_.load_format, api_, out);
    return out;
  }

 private:
  struct Choice {
    bool started = false;
    int64_t num_generated = 0;
    int64_t text_offset = 0;
    Delta answer;  // not streaming
  };

  Choice& choice_of(size_t prompt, const Delta& delta) {
    return choices_[prompt * static_cast<size_t>(common_.n) + static_cast<size_t>(delta.index)];
  }

  /// max_tokens 0: the engine made one token, which was not asked for.
  static void drop_generated(Delta& delta) {
    delta.text.clear();
    delta.token_ids.clear();
    delta.logprobs.clear();
    delta.num_generated_tokens = 0;
    if (delta.finish_reason == engine::FinishReason::kStop) {
      delta.finish_reason = engine::FinishReason::kLength;
      delta.stop_reason = {};
    }
  }

  /// The logprobs of a delta, led by those of the prompt when it is echoed.
  void write_logprobs(JsonWriter& w, size_t prompt, Choice& choice, const Delta& delta,
                      bool with_prompt) {
    w.key("logprobs");
    if (!common_.sampling.logprobs) {
      w.null();
      return;
    }
    std::vector<engine::TokenId> ids;
    OptionalLogprobs logprobs;
    if (with_prompt) {
      ids = request_.prompts[prompt].ids;
      logprobs = delta.prompt_logprobs;
      logprobs.resize(ids.size());
    }
    ids.insert(ids.end(), delta.token_ids.begin(), delta.token_ids.end());
    logprobs.insert(logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    write_text_logprobs(w, names_, ids, logprobs, *common_.sampling.logprobs, choice.text_offset);
  }

  void write_choice(JsonWriter& w, size_t prompt, int32_t sample) {
    Choice& choice =
        choices_[prompt * static_cast<size_t>(common_.n) + static_cast<size_t>(sample)];
    const Delta& delta = choice.answer;
    const CompletionPrompt& given = request_.prompts[prompt];
    w.begin_object().key("index").integer(static_cast<int64_t>(prompt) * common_.n + sample);
    w.key("text").string(common_.echo ? given.text + delta.text : delta.text);
    write_logprobs(w, prompt, choice, delta, common_.echo);
    write_finish(w, delta);
    w.key("token_ids");
    write_token_ids(w, common_.return_token_ids, delta.token_ids);
    w.key("prompt_logprobs");
    write_prompt_logprobs(w, names_, delta.prompt_logprobs);
    w.key("prompt_token_ids");
    write_token_ids(w, common_.return_token_ids, given.ids);
    w.key("routed_experts").null().key("weight_versions").null().end_object();
  }

  void write_chunk(size_t prompt, Choice& choice, Delta&& delta, std::string& events) {
    const bool first = !choice.started;
    const bool with_prompt = first && common_.echo;
    const CompletionPrompt& given = request_.prompts[prompt];
    events += "data: ";
    JsonWriter w(events);
    w.raw(head_).raw_key("choices").begin_array().begin_object();
    w.key("index").integer(static_cast<int64_t>(prompt) * common_.n + delta.index);
    w.key("text").string(with_prompt ? given.text + delta.text : delta.text);
    write_logprobs(w, prompt, choice, delta, with_prompt);
    write_finish(w, delta);
    w.key("prompt_token_ids");
    write_token_ids(w, first && common_.return_token_ids, given.ids);
    w.key("token_ids");
    write_token_ids(w, common_.return_token_ids, delta.token_ids);
    w.key("weight_versions").null().end_object().end_array();
    if (common_.continuous_usage) {
      w.key("usage");
      write_usage(w,
                  {static_cast<int64_t>(given.ids.size()), choice.num_generated,
                   num_cached_tokens_[prompt]},
                  /*with_nulls=*/false);
    }
    if (delta.finish_reason && !common_.include_usage) {
      w.key("system_fingerprint").string(api_.system_fingerprint);
    }
    w.key("kv_transfer_params").null().end_object();
    events += "\n\n";
  }

  Usage total_usage() const {
    Usage usage;
    for (const CompletionPrompt& prompt : request_.prompts) {
      usage.prompt_tokens += static_cast<int64_t>(prompt.ids.size());
    }
    for (const int64_t cached : num_cached_tokens_) usage.cached_tokens += cached;
    for (const Choice& choice : choices_) usage.completion_tokens += choice.num_generated;
    return usage;
  }

  const CompletionRequest request_;
  const CommonRequest& common_;
  const bool echo_only_;
  const TokenNames names_;
  std::string head_;  // an open object up to the model
  std::vector<Choice> choices_;
  std::vector<int64_t> num_cached_tokens_;  // of each prompt's first sample
};

}  // namespace

void post_completions(const ApiContext& api, HttpRequest http, std::shared_ptr<Exchange> exchange) {
  handle_json(api, http, *exchange, [&](const JsonBody& body) -> Status {
    OCTAVO_TRY(CompletionRequest request, parse_completion_request(body, api, http));
    const double arrival_wall_s = api.clock->wall_s();
    OCTAVO_TRY(std::vector<engine::SamplingParams> sampling, prepare_prompts(request, api));
    const std::string id = "cmpl-" + request.common.request_id;
    std::vector<frontend::GenerateRequest> requests;
    for (size_t i = 0; i < request.prompts.size(); ++i) {
      requests.push_back(make_generate_request(request.common, id + "-" + std::to_string(i),
                                               request.prompts[i].ids, std::move(sampling[i]),
                                               arrival_wall_s));
    }
    auto task = std::make_shared<CompletionTask>(api, exchange, std::move(request), id);
    return task->start(std::move(requests));
  });
}

}  // namespace octavo::openai
