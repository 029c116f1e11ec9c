#pragma once

#include "tokenizer/string_table.h"
#include "tokenizer/tokenizer_spec.h"

namespace octavo::tokenizer {

/// All tokens by id: as stored and as raw bytes. Immutable after creation.
class Vocabulary {
 public:
  static Result<Vocabulary> create(const TokenizerSpec& spec, std::string_view path);

  int64_t size() const { return int64_t(strings_.size()); }  // largest id + 1
  bool is_known(TokenId id) const { return strings_.has(id); }
  bool is_special(TokenId id) const {
    return id >= 0 && size_t(id) < special_.size() && special_[id];
  }
  std::string_view string_of(TokenId id) const { return strings_.at(id); }
  std::string_view bytes_of(TokenId id) const { return bytes_.at(id); }
  /// The id of a stored string ("Ġhello" or "<|im_end|>").
  TokenId find(std::string_view text) const { return index_.find(strings_, text); }
  /// The id of the BPE token that stands for exactly these bytes. Control tokens are not found.
  TokenId find_word(std::string_view bytes) const { return words_.find(bytes_, bytes); }
  size_t max_token_bytes() const { return max_token_bytes_; }

 private:
  StringTable strings_, bytes_;
  StringIndex index_, words_;
  std::vector<bool> special_;
  size_t max_token_bytes_ = 0;
};

}  // namespace octavo::tokenizer
