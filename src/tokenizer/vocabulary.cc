#include "tokenizer/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>

#include "tokenizer/byte_level.h"

namespace octavo::tokenizer {
namespace {

Status check_id(TokenId id, std::string_view path) {
  if (id >= 0 && id < kMaxVocabSize) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("{}: token id {} is outside of 0 to {}", path, id, kMaxVocabSize - 1)};
}

}  // namespace

Result<Vocabulary> Vocabulary::create(const TokenizerSpec& spec, std::string_view path) {
  TokenId last = -1;
  size_t num_bytes = 0;  // of all strings; the tables hold 32-bit offsets
  for (const auto& [text, id] : spec.vocab) {
    OCTAVO_TRY(check_id(id, path));
    last = std::max(last, id);
    num_bytes += text.size();
  }
  for (const AddedToken& token : spec.added) {
    OCTAVO_TRY(check_id(token.id, path));
    last = std::max(last, token.id);
    num_bytes += token.content.size();
  }
  if (last < 0) return Error{Code::kInvalidArgument, fmt::format("{}: no tokens", path)};
  if (num_bytes > size_t{1} << 30) {
    return Error{Code::kInvalidArgument, fmt::format("{}: more than 1 GiB of token text", path)};
  }
  Vocabulary vocabulary;
  const size_t count = size_t(last) + 1, num_strings = spec.vocab.size() + spec.added.size();
  vocabulary.strings_ = StringTable(count);
  vocabulary.bytes_ = StringTable(count);
  vocabulary.special_.resize(count);
  vocabulary.index_ = StringIndex(num_strings);
  vocabulary.words_ = StringIndex(spec.vocab.size());
  for (const AddedToken& token : spec.added) {
    if (token.special) vocabulary.special_[token.id] = true;
  }
  auto set = [&](TokenId id, std::string_view text, bool is_word) {
    // A string that is not of the byte alphabet stands for itself, as the reference decodes it.
    const std::optional<std::string> decoded = byte_level_decode(text);
    const std::string_view bytes = decoded ? std::string_view(*decoded) : text;
    vocabulary.strings_.set(id, text);
    vocabulary.bytes_.set(id, bytes);
    vocabulary.max_token_bytes_ = std::max(vocabulary.max_token_bytes_, bytes.size());
    if (is_word && decoded && !vocabulary.special_[id]) {
      vocabulary.words_.add(vocabulary.bytes_, id);
    }
    vocabulary.index_.add(vocabulary.strings_, id);
  };
  for (const auto& [text, id] : spec.vocab) {
    // Two strings with one id: the first is the token (the indexes hold views of what it stands
    // for).
    if (!vocabulary.strings_.has(id)) set(id, text, true);
  }
  for (const AddedToken& token : spec.added) {
    if (!vocabulary.strings_.has(token.id)) set(token.id, token.content, false);
  }
  return vocabulary;
}

}  // namespace octavo::tokenizer
