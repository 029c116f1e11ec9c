#pragma once

#include <bitset>
#include <functional>
#include <vector>

#include "tokenizer/tokenizer_spec.h"

namespace octavo::tokenizer {

/// Finds added tokens in text: the leftmost, and of those that start together the longest.
/// Immutable; any thread.
class AddedTokenMatcher {
 public:
  explicit AddedTokenMatcher(const std::vector<AddedToken>& tokens);

  bool empty() const { return nodes_.size() == 1; }

  /// A stretch of text without added tokens ([begin, end), not empty), or a token (id >= 0).
  struct Part {
    size_t begin = 0, end = 0;
    TokenId id = kNoToken;
  };
  /// Gives the parts of `text` in order; false from `sink` stops. Tokens with `special: true` are
  /// not matched where they overlap `untrusted`.
  bool split(std::string_view text, std::span<const TextSpan> untrusted,
             const std::function<bool(const Part&)>& sink) const;

 private:
  struct Node {
    std::vector<std::pair<unsigned char, uint32_t>> children;  // sorted by byte
    int32_t token = -1;                                        // index into tokens_
  };
  const AddedToken* longest_at(std::string_view text, size_t at,
                               std::span<const TextSpan> untrusted) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;  // a trie; 0 is the root
  std::bitset<256> first_bytes_;
};

}  // namespace octavo::tokenizer
