#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace octavo::tokenizer {

IncrementalDecoder::IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {}

// What stays pending is at most three bytes: a start of a character that may still become valid.
std::string IncrementalDecoder::push(TokenId id) {
  std::string out;
  if (skip_special_tokens_ && tokenizer_.is_special(id)) return out;
  pending_ += tokenizer_.token_bytes(id);
  pending_.erase(0, append_lossy(pending_, true, out));
  return out;
}

std::string IncrementalDecoder::finish() {
  std::string out;
  append_lossy(pending_, false, out);
  pending_.clear();
  return out;
}

}  // namespace octavo::tokenizer
