#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat_template/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace octavo::frontend {

using SharedJson = std::shared_ptr<const nlohmann::ordered_json>;

/// One message of a conversation, checked by openai/. Content is a text, a list of text parts, or
/// absent (neither).
struct ChatMessage {
  std::string role;
  std::optional<std::string> text;
  std::optional<std::vector<std::string>> parts;
  std::optional<std::string> name;
  std::optional<std::string> tool_call_id;
  std::optional<std::string> reasoning;
  SharedJson tool_calls;  // array with arguments as objects; nullptr = none
};

struct ChatPromptOptions {
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  SharedJson tools;  // nullptr = none
  SharedJson documents;
  SharedJson template_kwargs;           // of the request: untrusted
  SharedJson default_kwargs;            // of the operator
  std::string content_format = "auto";  // auto, string, openai
  double now_wall_s = 0.0;
};

/// Text of the whole message: parts are joined by newlines.
std::string content_text(const ChatMessage& message);

/// Messages -> prompt text with its untrusted spans. `developer` becomes `system` for templates
/// that do not know it. Errors: kInvalidArgument, when the template refuses the messages.
Result<chat_template::Rendered> render_chat(const chat_template::ChatTemplate& chat_template,
                                            const tokenizer::Tokenizer& tokenizer,
                                            const std::vector<ChatMessage>& messages,
                                            const ChatPromptOptions& options);

/// Prompt text -> ids. Special tokens spelled inside untrusted spans stay text unless
/// `special_tokens_in_content`.
std::vector<tokenizer::TokenId> encode_chat(const tokenizer::Tokenizer& tokenizer,
                                            const chat_template::Rendered& rendered,
                                            bool add_special_tokens,
                                            bool special_tokens_in_content);

}  // namespace octavo::frontend
