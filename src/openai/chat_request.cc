#include "openai/chat_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace octavo::openai {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kEfforts =
    std::to_array<std::string_view>({"none", "minimal", "low", "medium", "high", "xhigh", "max"});

frontend::SharedJson json_field(const Fields& fields, std::string_view name) {
  const auto element = fields.find(name);
  if (!element) return nullptr;
  auto value = to_ordered_json(*element, name);
  if (!value.ok()) {
    fields.errors().semantic(std::string(name), value.error().message);
    return nullptr;
  }
  return std::make_shared<const Json>(std::move(value).value());
}

/// Tools reach the template, but calls cannot be parsed yet: only tool_choice "none" is served.
void parse_tools(const Fields& fields, ChatPromptFields& out) {
  RequestErrors& errors = fields.errors();
  const auto tools = fields.array("tools");
  const auto choice = fields.find("tool_choice");
  const bool none = choice && choice->is_string() && string_of(*choice) == "none";
  if (choice && !choice->is_string() && !choice->is_object()) {
    errors.schema(fields.path_of("tool_choice"), "Input should be a string or an object", *choice);
  }
  if (!tools) {
    if (choice && !none) {
      errors.semantic("tool_choice", "tool_choice needs tools (parameter=tool_choice)");
    }
    return;
  }
  if (tools->begin() == tools->end()) {
    errors.semantic("tools", "tools must not be an empty list (parameter=tools)");
  } else if (!none) {
    errors.semantic("tools",
                    "tools are not supported yet, except with tool_choice \"none\" "
                    "(parameter=tools)");
  } else {
    out.options.tools = json_field(fields, "tools");
  }
}

void parse_template(const Fields& fields, const ApiContext& api, ChatPromptFields& out) {
  RequestErrors& errors = fields.errors();
  const auto source = fields.string("chat_template");
  if (!source) return;
  if (!api.config->frontend.trust_request_chat_template) {
    errors.semantic("", "chat_template in a request needs --trust-request-chat-template");
    return;
  }
  auto compiled = chat_template::ChatTemplate::compile(*source);
  if (compiled.ok()) {
    out.own_template.emplace(std::move(compiled).value());
  } else {
    errors.semantic("", compiled.error().message);
  }
}

void parse_kwargs(const Fields& fields, ChatPromptFields& out) {
  RequestErrors& errors = fields.errors();
  (void)fields.object("chat_template_kwargs");  // notes a wrong type
  frontend::SharedJson given = json_field(fields, "chat_template_kwargs");
  Json kwargs = given && given->is_object() ? *given : Json::object();
  if (const auto effort = fields.string("reasoning_effort")) {
    if (std::find(kEfforts.begin(), kEfforts.end(), *effort) == kEfforts.end()) {
      errors.schema_value(fields.path_of("reasoning_effort"),
                          "Input should be none, minimal, low, medium, high, xhigh or max",
                          *fields.find("reasoning_effort"));
    }
    kwargs.emplace("reasoning_effort", *effort);
    kwargs.emplace("enable_thinking", *effort != "none");
  }
  if (!kwargs.empty())
    out.options.template_kwargs = std::make_shared<const Json>(std::move(kwargs));
}

frontend::SharedJson default_kwargs(const ApiContext& api) {
  auto value = Json::parse(api.config->frontend.default_chat_template_kwargs, nullptr, false);
  if (!value.is_object() || value.empty()) return nullptr;
  return std::make_shared<const Json>(std::move(value));
}

}  // namespace

void parse_chat_prompt_fields(const Fields& fields, const ApiContext& api, ChatPromptFields& out) {
  RequestErrors& errors = fields.errors();
  out.messages = parse_messages(fields);
  const auto add_generation_prompt = fields.boolean("add_generation_prompt");
  out.options.continue_final_message = fields.boolean("continue_final_message").value_or(false);
  out.options.add_generation_prompt =
      add_generation_prompt.value_or(!out.options.continue_final_message);
  if (out.options.continue_final_message && add_generation_prompt.value_or(false)) {
    errors.semantic("continue_final_message",
                    "continue_final_message and add_generation_prompt cannot both be true "
                    "(parameter=continue_final_message)");
  }
  parse_tools(fields, out);
  parse_template(fields, api, out);
  parse_kwargs(fields, out);
  (void)fields.array("documents");
  out.options.documents = json_field(fields, "documents");
  out.options.default_kwargs = default_kwargs(api);
  out.options.content_format = api.config->frontend.chat_template_content_format;
  out.options.now_wall_s = api.clock->wall_s();
}

Result<ChatPrompt> make_chat_prompt(const ApiContext& api, const CommonRequest& common,
                                    const ChatPromptFields& prompt) {
  const chat_template::ChatTemplate* chat_template =
      prompt.own_template ? &*prompt.own_template : api.chat_template;
  if (chat_template == nullptr) {
    return Error{Code::kInvalidArgument,
                 "The model has no chat template; give one with --chat-template, or use "
                 "/v1/completions"};
  }
  const tokenizer::Tokenizer& tokenizer = api.frontend->tokenizer();
  OCTAVO_TRY(chat_template::Rendered rendered,
             frontend::render_chat(*chat_template, tokenizer, prompt.messages, prompt.options));
  OCTAVO_TRY(check_text_length(common, rendered.text, *api.frontend));
  ChatPrompt out;
  out.ids = frontend::encode_chat(tokenizer, rendered, common.add_special_tokens,
                                  api.config->frontend.special_tokens_in_content);
  out.text = std::move(rendered.text);
  return out;
}

Result<ChatRequest> parse_chat_request(const JsonBody& body, const ApiContext& api,
                                       const HttpRequest& http) {
  RequestErrors errors;
  const Fields fields(object_of(body.root()), "", errors);
  ChatRequest out;
  parse_common(fields, Route::kChat, api, http, out.common);
  parse_chat_prompt_fields(fields, api, out.prompt);
  out.return_prompt_text = fields.boolean("return_prompt_text").value_or(false);
  (void)fields.boolean("include_reasoning");
  (void)fields.boolean("parallel_tool_calls");
  OCTAVO_TRY(errors.status());
  OCTAVO_TRY(check_model(api, out.common.model));
  return out;
}

}  // namespace octavo::openai
