#include "bench/shell_words.h"

#include <algorithm>
#include <cctype>

namespace octavo::bench {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_plain(char c) {
  constexpr std::string_view kPlain = "-_=./:,@%+";
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || kPlain.find(c) != kPlain.npos;
}

}  // namespace

Result<std::vector<std::string>> split_shell_words(std::string_view command) {
  std::vector<std::string> words;
  std::string word;
  bool has_word = false;  // also an empty one in quotes
  char quote = 0;
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (quote == 0 && is_blank(c)) {
      if (has_word) words.push_back(std::move(word));
      word.clear();
      has_word = false;
      continue;
    }
    has_word = true;
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote != '\'') {
      if (i + 1 == command.size()) {
        return Error{Code::kInvalidArgument, "a backslash ends the command"};
      }
      const char next = command[++i];
      // Between double quotes it protects only these.
      if (quote == '"' && next != '"' && next != '\\') word += c;
      word += next;
    } else {
      word += c;
    }
  }
  if (quote != 0) {
    return Error{Code::kInvalidArgument, std::string("a quote ") + quote + " is not closed"};
  }
  if (has_word) words.push_back(std::move(word));
  if (words.empty()) return Error{Code::kInvalidArgument, "the command is empty"};
  return words;
}

std::string join_shell_words(std::span<const std::string> words) {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += ' ';
    if (!word.empty() && std::ranges::all_of(word, is_plain)) {
      out += word;
      continue;
    }
    out += '\'';
    for (const char c : word) {
      if (c == '\'') {
        out += "'\\''";
      } else {
        out += c;
      }
    }
    out += '\'';
  }
  return out;
}

}  // namespace octavo::bench
