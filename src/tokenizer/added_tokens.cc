#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "tokenizer/text_span.h"
#include "tokenizer/utf8.h"

namespace octavo::tokenizer {
namespace {

bool is_word_at(std::string_view text, size_t at) {
  return CharClass(decode_utf8(text, at).code).is_word();
}

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && is_word_at(text, previous_char(text, begin))) return false;
  return end == text.size() || !is_word_at(text, end);
}

/// Start of the white space that ends before `begin`, but not before `limit`.
size_t space_before(std::string_view text, size_t begin, size_t limit) {
  while (begin > limit) {
    const size_t previous = previous_char(text, begin);
    if (!CharClass(decode_utf8(text, previous).code).is_space()) break;
    begin = std::max(previous, limit);
  }
  return begin;
}

size_t space_after(std::string_view text, size_t end) {
  while (end < text.size()) {
    const Utf8Char c = decode_utf8(text, end);
    if (!CharClass(c.code).is_space()) break;
    end += c.size;
  }
  return end;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(const std::vector<AddedToken>& tokens) : nodes_(1) {
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    uint32_t node = 0;
    for (const char c : token.content) {
      const auto byte = static_cast<unsigned char>(c);
      auto& children = nodes_[node].children;
      auto child = std::lower_bound(children.begin(), children.end(), byte,
                                    [](const auto& entry, auto b) { return entry.first < b; });
      if (child == children.end() || child->first != byte) {
        const auto added = uint32_t(nodes_.size());
        children.insert(child, {byte, added});
        nodes_.emplace_back();  // `children` and `child` are invalid from here on
        node = added;
      } else {
        node = child->second;
      }
    }
    if (nodes_[node].token >= 0) continue;  // the first of two equal contents counts
    nodes_[node].token = int32_t(tokens_.size());
    tokens_.push_back(token);
    first_bytes_.set(static_cast<unsigned char>(token.content[0]));
  }
}

const AddedToken* AddedTokenMatcher::longest_at(std::string_view text, size_t at,
                                                std::span<const TextSpan> untrusted) const {
  const AddedToken* longest = nullptr;
  uint32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto& children = nodes_[node].children;
    const auto child = std::lower_bound(children.begin(), children.end(), byte,
                                        [](const auto& entry, auto b) { return entry.first < b; });
    if (child == children.end() || child->first != byte) break;
    node = child->second;
    if (nodes_[node].token < 0) continue;
    const AddedToken& token = tokens_[nodes_[node].token];
    if (!token.special || untrusted.empty() || !overlaps(untrusted, at, i + 1)) longest = &token;
  }
  return longest;
}

bool AddedTokenMatcher::split(std::string_view text, std::span<const TextSpan> untrusted,
                              const std::function<bool(const Part&)>& sink) const {
  size_t given = 0;  // end of what sink has got
  for (size_t at = 0; at < text.size();) {
    if (!first_bytes_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const AddedToken* token = longest_at(text, at, untrusted);
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + token->content.size();
    at = end;
    if (token->single_word && !stands_alone(text, begin, end)) continue;
    if (token->lstrip) begin = space_before(text, begin, given);
    // As in the reference, the search goes on right behind the token, so that another token may
    // begin in white space that rstrip has taken, and what follows that one counts again.
    if (token->rstrip) end = space_after(text, end);
    if (given < begin && !sink({given, begin, kNoToken})) return false;
    if (!sink({begin, end, token->id})) return false;
    given = end;
  }
  return given >= text.size() || sink({given, text.size(), kNoToken});
}

}  // namespace octavo::tokenizer
