#include "frontend/chat_prompt.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace octavo::frontend {
namespace {

using Json = nlohmann::ordered_json;

/// Variables that the request's chat_template_kwargs cannot replace.
constexpr std::array<std::string_view, 8> kReserved = {
    "messages",  "tools",     "documents",    "add_generation_prompt", "continue_final_message",
    "bos_token", "eos_token", "chat_template"};

bool reserved(std::string_view key) {
  return std::find(kReserved.begin(), kReserved.end(), key) != kReserved.end();
}

Json text_part(const std::string& text) { return Json{{"type", "text"}, {"text", text}}; }

Json content_value(const ChatMessage& message, bool as_parts) {
  // Templates that take parts still print what a tool returned as one string.
  if (!as_parts || message.role == "tool") return content_text(message);
  Json parts = Json::array();
  if (message.text) parts.push_back(text_part(*message.text));
  if (message.parts) {
    for (const std::string& text : *message.parts) parts.push_back(text_part(text));
  }
  return parts;
}

Json message_value(const ChatMessage& message, bool as_parts, bool knows_developer) {
  Json out = Json::object();
  out["role"] = message.role == "developer" && !knows_developer ? "system" : message.role;
  out["content"] = content_value(message, as_parts);
  if (message.name) out["name"] = *message.name;
  if (message.tool_call_id) out["tool_call_id"] = *message.tool_call_id;
  if (message.tool_calls) out["tool_calls"] = *message.tool_calls;
  if (message.reasoning) {
    out["reasoning"] = *message.reasoning;
    out["reasoning_content"] = *message.reasoning;
  }
  return out;
}

void add_kwargs(Json& variables, const SharedJson& kwargs, std::vector<std::string>* untrusted) {
  if (kwargs == nullptr || !kwargs->is_object()) return;
  for (const auto& [key, value] : kwargs->items()) {
    if (reserved(key)) continue;
    variables[key] = value;
    if (untrusted != nullptr) untrusted->push_back(key);
  }
}

}  // namespace

std::string content_text(const ChatMessage& message) {
  if (message.text) return *message.text;
  std::string text;
  if (!message.parts) return text;
  for (size_t i = 0; i < message.parts->size(); ++i) {
    if (i > 0) text += '\n';
    text += (*message.parts)[i];
  }
  return text;
}

Result<chat_template::Rendered> render_chat(const chat_template::ChatTemplate& chat_template,
                                            const tokenizer::Tokenizer& tokenizer,
                                            const std::vector<ChatMessage>& messages,
                                            const ChatPromptOptions& options) {
  const bool as_parts = options.content_format == "openai" ||
                        (options.content_format == "auto" && chat_template.uses_content_parts());
  const bool knows_developer = chat_template.mentions("developer");
  Json list = Json::array();
  for (const ChatMessage& message : messages) {
    list.push_back(message_value(message, as_parts, knows_developer));
  }
  Json variables = Json::object();
  variables["messages"] = std::move(list);
  // Absent ones are none, not undefined: templates ask `tools is not none`.
  variables["tools"] = options.tools ? *options.tools : Json();
  variables["documents"] = options.documents ? *options.documents : Json();
  variables["add_generation_prompt"] = options.add_generation_prompt;
  variables["bos_token"] = std::string(tokenizer.bos_token());
  variables["eos_token"] = std::string(tokenizer.eos_token());

  chat_template::RenderInput input;
  add_kwargs(variables, options.default_kwargs, nullptr);
  add_kwargs(variables, options.template_kwargs, &input.untrusted_keys);
  input.variables = &variables;
  input.now_wall_s = options.now_wall_s;
  input.continue_final_message = options.continue_final_message;
  return chat_template.render(input);
}

std::vector<tokenizer::TokenId> encode_chat(const tokenizer::Tokenizer& tokenizer,
                                            const chat_template::Rendered& rendered,
                                            bool add_special_tokens,
                                            bool special_tokens_in_content) {
  std::vector<tokenizer::TextSpan> untrusted;
  if (!special_tokens_in_content) {
    for (const auto& span : rendered.untrusted) untrusted.push_back({span.begin, span.end});
  }
  return tokenizer.encode(rendered.text,
                          {.add_special_tokens = add_special_tokens, .untrusted = untrusted});
}

}  // namespace octavo::frontend
