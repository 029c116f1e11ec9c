#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace octavo::chat_template {

enum class TokenType : unsigned char {
  kText,  // literal output, whitespace control already applied
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,   // text is the value, escapes resolved
  kInteger,  // text is the digits, separators removed
  kFloat,
  kOperator,  // text is the operator
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  std::string text;
  int line = 1;
};

/// Cuts a template into tokens, with trim_blocks and lstrip_blocks on and the one trailing newline
/// dropped. Throws Failure with the line of what cannot be read. Ends with a kEnd token.
std::vector<Token> tokenize(std::string_view source);

}  // namespace octavo::chat_template
