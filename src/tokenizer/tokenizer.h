#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace octavo::tokenizer {

using TokenId = int32_t;

/// A byte range of a text in which tokens with `special: true` are not matched: content that came
/// from a request. Ranges are sorted and do not overlap.
struct TextSpan {
  size_t begin = 0;
  size_t end = 0;
};

struct EncodeOptions {
  bool add_special_tokens = true;            // the tokenizer's own BOS/EOS template
  std::span<const TextSpan> untrusted = {};  // special tokens in here stay text
  size_t max_tokens = SIZE_MAX;              // stop soon after so many: bounds work on long input
};

/// Text <-> token ids. Immutable after creation; any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// From tokenizer.json (+ tokenizer_config.json) of an HF directory, or from GGUF metadata.
  /// Errors name the file and the component that is not supported.
  static Result<std::unique_ptr<Tokenizer>> create(const checkpoint::Checkpoint& checkpoint);
  /// From the texts of tokenizer.json and tokenizer_config.json (may be empty); `path` for
  /// messages.
  static Result<std::unique_ptr<Tokenizer>> from_json(std::string_view tokenizer_json,
                                                      std::string_view tokenizer_config_json,
                                                      std::string_view path);

  /// Linear in the length of `text`, whatever it holds. `text` is valid UTF-8.
  virtual std::vector<TokenId> encode(std::string_view text,
                                      const EncodeOptions& options) const = 0;

  /// Text of ids; invalid UTF-8 becomes U+FFFD, as the reference does. Ids outside the vocabulary
  /// give nothing.
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const = 0;

  /// Raw bytes of one token (byte-level decoded), for incremental decoding and `bytes` of logprobs.
  virtual std::string_view token_bytes(TokenId id) const = 0;
  /// As stored in the vocabulary ("Ġhello"), for /tokenize's token_strs. Empty for unknown ids.
  virtual std::string_view token_string(TokenId id) const = 0;

  virtual TokenId find(std::string_view token_string) const = 0;  // -1 = not there
  virtual bool is_special(TokenId id) const = 0;  // `special: true`: skipped by skip_special_tokens
  virtual bool is_known(TokenId id) const = 0;    // has a string
  virtual int64_t vocab_size() const = 0;         // largest id + 1
  virtual size_t max_token_bytes() const = 0;
  virtual TokenId bos_token_id() const = 0;  // -1 = none
  virtual TokenId eos_token_id() const = 0;  // -1 = none
  virtual std::string_view bos_token() const = 0;
  virtual std::string_view eos_token() const = 0;
};

/// Text of a growing token sequence: joined pieces equal `decode` of all ids, and no piece ends
/// inside a character. One per sequence; not shared between threads.
class IncrementalDecoder {
 public:
  IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special_tokens);
  /// Text that has become final with this token; may be empty.
  std::string push(TokenId id);
  /// What is left at the end of the sequence: an incomplete character becomes U+FFFD.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  std::string pending_;
};

}  // namespace octavo::tokenizer
