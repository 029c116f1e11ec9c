#include <fmt/format.h>

#include <utility>

#include "openai/chat_request.h"
#include "openai/handler.h"
#include "openai/response_parts.h"

namespace octavo::openai {
namespace {

HttpResponse tokens_response(const ApiContext& api, std::span<const engine::TokenId> ids,
                             bool with_strings) {
  HttpResponse out;
  JsonWriter w(out.body);
  w.begin_object().key("count").integer(static_cast<int64_t>(ids.size()));
  w.key("max_model_len").integer(api.frontend->engine_info().max_model_len);
  w.key("tokens");
  write_token_ids(w, true, ids);
  w.key("token_strs");
  if (with_strings) {
    w.begin_array();
    for (const engine::TokenId id : ids) w.string(api.frontend->tokenizer().token_string(id));
    w.end_array();
  } else {
    w.null();
  }
  w.end_object();
  return out;
}

Result<HttpResponse> tokenize(const ApiContext& api, const JsonBody& body) {
  RequestErrors errors;
  const Fields fields(object_of(body.root()), "", errors);
  const bool chat = fields.find("messages").has_value();
  CommonRequest common;
  common.model = fields.string("model").value_or("");
  common.add_special_tokens = fields.boolean("add_special_tokens").value_or(!chat);
  const bool with_strings = fields.boolean("return_token_strs").value_or(false);
  ChatPromptFields messages;
  std::optional<std::string> prompt;
  if (chat) {
    parse_chat_prompt_fields(fields, api, messages);
  } else {
    prompt = fields.string("prompt");
    if (!prompt && !fields.find("prompt")) errors.schema("prompt", "Field required (or messages)");
  }
  OCTAVO_TRY(errors.status());
  OCTAVO_TRY(check_model(api, common.model));
  if (chat) {
    OCTAVO_TRY(const ChatPrompt made, make_chat_prompt(api, common, messages));
    return tokens_response(api, made.ids, with_strings);
  }
  OCTAVO_TRY(check_num_bytes(prompt->size(), *api.frontend));
  const auto ids = api.frontend->tokenizer().encode(
      *prompt, {.add_special_tokens = common.add_special_tokens, .untrusted = {}});
  return tokens_response(api, ids, with_strings);
}

Result<HttpResponse> detokenize(const ApiContext& api, const JsonBody& body) {
  RequestErrors errors;
  const Fields fields(object_of(body.root()), "", errors);
  const auto model = fields.string("model");
  const auto tokens = fields.integers("tokens");
  if (!tokens && !fields.find("tokens")) errors.schema("tokens", "Field required");
  std::vector<engine::TokenId> ids;
  const int64_t limit =
      std::max(api.frontend->engine_info().vocab_size, api.frontend->tokenizer().vocab_size());
  size_t num_bytes = 0;
  if (tokens) {
    for (const int64_t id : *tokens) {
      if (id < 0 || id >= limit) {
        errors.range("tokens", fmt::format("must hold token ids in [0, {}]", limit - 1),
                     fmt::format("{}", id));
        break;
      }
      ids.push_back(static_cast<engine::TokenId>(id));
      num_bytes += api.frontend->tokenizer().token_bytes(ids.back()).size();
    }
  }
  OCTAVO_TRY(errors.status());
  OCTAVO_TRY(check_model(api, model.value_or("")));
  OCTAVO_TRY(check_num_bytes(num_bytes, *api.frontend));
  HttpResponse out;
  JsonWriter w(out.body);
  w.begin_object().key("prompt").string(api.frontend->tokenizer().decode(ids, false)).end_object();
  return out;
}

}  // namespace

void post_tokenize(const ApiContext& api, HttpRequest http, std::shared_ptr<Exchange> exchange) {
  handle_json(api, http, *exchange, [&](const JsonBody& body) -> Status {
    OCTAVO_TRY(HttpResponse response, tokenize(api, body));
    exchange->respond(std::move(response));
    return {};
  });
}

void post_detokenize(const ApiContext& api, HttpRequest http, std::shared_ptr<Exchange> exchange) {
  handle_json(api, http, *exchange, [&](const JsonBody& body) -> Status {
    OCTAVO_TRY(HttpResponse response, detokenize(api, body));
    exchange->respond(std::move(response));
    return {};
  });
}

}  // namespace octavo::openai
