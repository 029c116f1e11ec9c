#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace octavo::tokenizer {

inline constexpr TokenId kNoToken = -1;
/// Largest id + 1 that a file may use: sixteen times the largest published vocabulary.
inline constexpr int64_t kMaxVocabSize = int64_t{1} << 22;

/// A token that is found in text before BPE runs.
struct AddedToken {
  TokenId id = kNoToken;
  std::string content;
  bool special = false;      // a control token: untrusted text cannot spell it
  bool normalized = false;   // found in normalised text rather than in the text as given
  bool single_word = false;  // only between non-word characters
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and after it
};

/// A tokenizer as its file describes it, checked; what tokenizer.json and GGUF have in common.
/// Views point into the file's text, which must live until the tokenizer is built.
struct TokenizerSpec {
  std::vector<std::pair<std::string_view, TokenId>> vocab;            // the BPE model's own tokens
  std::vector<std::pair<std::string_view, std::string_view>> merges;  // best first
  std::vector<AddedToken> added;
  bool ignore_merges = false;  // a word that is a token needs no merges
  std::string unk_token;       // for bytes without a token; empty = they are dropped
  bool fuse_unk = false;       // neighbouring unknown bytes give one token
  Normalizer normalizer;
  std::vector<PreTokenizer::Step> pre_tokenizer;
  std::vector<TokenId> prefix_ids, suffix_ids;  // what add_special_tokens puts around the text
  std::string bos_token, eos_token;             // empty = none
};

/// The tokenizer of a checked description. Errors: ids out of range, merges out of vocabulary.
Result<std::unique_ptr<Tokenizer>> build_tokenizer(TokenizerSpec spec, std::string_view path);

/// The description in GGUF metadata ("tokenizer.ggml.*"). Views point into `metadata`.
Result<TokenizerSpec> spec_from_gguf(const checkpoint::Metadata& metadata, std::string_view path);

}  // namespace octavo::tokenizer
