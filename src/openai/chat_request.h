#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chat_template/chat_template.h"
#include "frontend/chat_prompt.h"
#include "openai/request_common.h"

namespace octavo::openai {

/// The fields that make a prompt out of messages: chat completions and /tokenize.
struct ChatPromptFields {
  std::vector<frontend::ChatMessage> messages;
  frontend::ChatPromptOptions options;
  std::optional<chat_template::ChatTemplate> own_template;  // of the request, when trusted
};

struct ChatRequest {
  CommonRequest common;
  ChatPromptFields prompt;
  bool return_prompt_text = false;
};

/// Prompt text and ids of a conversation, before truncation.
struct ChatPrompt {
  std::string text;
  std::vector<engine::TokenId> ids;
};

Result<ChatRequest> parse_chat_request(const JsonBody& body, const ApiContext& api,
                                       const HttpRequest& http);

/// messages, tools, template fields. What is wrong goes into the errors of `fields`.
void parse_chat_prompt_fields(const Fields& fields, const ApiContext& api, ChatPromptFields& out);

/// Renders and tokenises, exactly the same way for /v1/chat/completions and /tokenize.
Result<ChatPrompt> make_chat_prompt(const ApiContext& api, const CommonRequest& common,
                                    const ChatPromptFields& prompt);

// chat_messages.cc
std::vector<frontend::ChatMessage> parse_messages(const Fields& fields);

}  // namespace octavo::openai
