#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/text_span.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/utf8.h"
#include "tokenizer/vocabulary.h"

namespace octavo::tokenizer {
namespace {

/// The added tokens that are found in the text as given, or those found in normalised text.
std::vector<AddedToken> tokens_of(const TokenizerSpec& spec, bool normalized) {
  std::vector<AddedToken> out;
  for (const AddedToken& token : spec.added) {
    if (token.normalized == normalized) out.push_back(token);
  }
  return out;
}

class ByteBpeTokenizer final : public Tokenizer {
 public:
  ByteBpeTokenizer(TokenizerSpec spec, Vocabulary vocabulary, Bpe bpe)
      : vocabulary_(std::move(vocabulary)),
        bpe_(std::move(bpe)),
        raw_tokens_(tokens_of(spec, false)),
        normalized_tokens_(tokens_of(spec, true)),
        normalizer_(std::move(spec.normalizer)),
        pre_tokenizer_(std::move(spec.pre_tokenizer)),
        prefix_ids_(std::move(spec.prefix_ids)),
        suffix_ids_(std::move(spec.suffix_ids)),
        bos_token_(std::move(spec.bos_token)),
        eos_token_(std::move(spec.eos_token)),
        bos_id_(bos_token_.empty() ? kNoToken : vocabulary_.find(bos_token_)),
        eos_id_(eos_token_.empty() ? kNoToken : vocabulary_.find(eos_token_)) {}

  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override {
    // The contract says valid UTF-8; the scanners rely on it for their character boundaries.
    std::string repaired;
    const TextSpan everything{0, text.size() * 3};
    EncodeOptions used = options;
    if (!simdjson::validate_utf8(text.data(), text.size())) {
      append_lossy(text, false, repaired);
      text = repaired;
      if (!options.untrusted.empty()) used.untrusted = {&everything, 1};
    }
    std::vector<TokenId> out;
    out.reserve(std::min(text.size() / 3 + 8, options.max_tokens));
    if (options.add_special_tokens) out.insert(out.end(), prefix_ids_.begin(), prefix_ids_.end());
    const bool whole = encode_text(text, used, out);
    if (whole && options.add_special_tokens) {
      out.insert(out.end(), suffix_ids_.begin(), suffix_ids_.end());
    }
    return out;
  }

  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const override {
    std::string bytes;
    for (const TokenId id : ids) {
      if (!(skip_special_tokens && vocabulary_.is_special(id))) bytes += vocabulary_.bytes_of(id);
    }
    std::string out;
    out.reserve(bytes.size());
    append_lossy(bytes, false, out);
    return out;
  }

  std::string_view token_bytes(TokenId id) const override { return vocabulary_.bytes_of(id); }
  std::string_view token_string(TokenId id) const override { return vocabulary_.string_of(id); }
  TokenId find(std::string_view text) const override { return vocabulary_.find(text); }
  bool is_special(TokenId id) const override { return vocabulary_.is_special(id); }
  bool is_known(TokenId id) const override { return vocabulary_.is_known(id); }
  int64_t vocab_size() const override { return vocabulary_.size(); }
  size_t max_token_bytes() const override { return vocabulary_.max_token_bytes(); }
  TokenId bos_token_id() const override { return bos_id_; }
  TokenId eos_token_id() const override { return eos_id_; }
  std::string_view bos_token() const override { return bos_token_; }
  std::string_view eos_token() const override { return eos_token_; }

 private:
  /// False when it stopped at max_tokens.
  bool encode_text(std::string_view text, const EncodeOptions& options,
                   std::vector<TokenId>& out) const {
    Bpe::Scratch scratch;
    const PieceSink encode_piece = [&](std::string_view piece) {
      bpe_.encode(vocabulary_, piece, scratch, out);
      return out.size() < options.max_tokens;
    };
    // Added tokens of the text as given, then those of each normalised stretch, then words.
    auto split_normalized = [&](std::string_view stretch, std::span<const TextSpan> untrusted) {
      return normalized_tokens_.split(stretch, untrusted, [&](const AddedTokenMatcher::Part& part) {
        if (part.id == kNoToken) {
          pre_tokenizer_.split(stretch.substr(part.begin, part.end - part.begin), encode_piece);
        } else {
          out.push_back(part.id);
        }
        return out.size() < options.max_tokens;
      });
    };
    return raw_tokens_.split(text, options.untrusted, [&](const AddedTokenMatcher::Part& part) {
      if (part.id != kNoToken) {
        out.push_back(part.id);
        return out.size() < options.max_tokens;
      }
      const std::string_view stretch = text.substr(part.begin, part.end - part.begin);
      std::vector<TextSpan> untrusted;
      if (!normalized_tokens_.empty()) untrusted = clip(options.untrusted, part.begin, part.end);
      if (normalizer_.empty()) return split_normalized(stretch, untrusted);
      MarkedText marked{std::string(stretch), std::move(untrusted)};
      normalizer_.apply(marked);
      return split_normalized(marked.text, marked.untrusted);
    });
  }

  Vocabulary vocabulary_;
  Bpe bpe_;
  AddedTokenMatcher raw_tokens_, normalized_tokens_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::vector<TokenId> prefix_ids_, suffix_ids_;
  std::string bos_token_, eos_token_;
  TokenId bos_id_, eos_id_;
};

/// An added token that the model's vocabulary already has keeps the vocabulary's id.
void use_vocabulary_ids(TokenizerSpec& spec) {
  std::vector<std::pair<std::string_view, AddedToken*>> by_content;
  for (AddedToken& token : spec.added) by_content.emplace_back(token.content, &token);
  std::sort(by_content.begin(), by_content.end());
  for (const auto& [text, id] : spec.vocab) {
    auto match = std::lower_bound(by_content.begin(), by_content.end(),
                                  std::pair<std::string_view, AddedToken*>(text, nullptr));
    for (; match != by_content.end() && match->first == text; ++match) match->second->id = id;
  }
}

Status check_template(const TokenizerSpec& spec, const Vocabulary& vocabulary,
                      std::string_view path) {
  for (const auto* ids : {&spec.prefix_ids, &spec.suffix_ids}) {
    for (const TokenId id : *ids) {
      if (!vocabulary.is_known(id)) {
        return Error{Code::kInvalidArgument,
                     fmt::format("{}: the template's token {} is not in the vocabulary", path, id)};
      }
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> build_tokenizer(TokenizerSpec spec, std::string_view path) {
  use_vocabulary_ids(spec);
  // What is looked for in normalised text is normalised too, and so decoded, as in the reference.
  for (AddedToken& token : spec.added) {
    if (token.normalized && !spec.normalizer.empty()) {
      token.content = spec.normalizer.apply(token.content);
    }
  }
  OCTAVO_TRY(Vocabulary vocabulary, Vocabulary::create(spec, path));
  OCTAVO_TRY(Bpe bpe, Bpe::create(spec, vocabulary, path));
  OCTAVO_TRY(check_template(spec, vocabulary, path));
  return std::unique_ptr<Tokenizer>(
      std::make_unique<ByteBpeTokenizer>(std::move(spec), std::move(vocabulary), std::move(bpe)));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_json(std::string_view tokenizer_json,
                                                        std::string_view tokenizer_config_json,
                                                        std::string_view path) {
  OCTAVO_TRY(TokenizerJson parsed,
             TokenizerJson::parse(tokenizer_json, tokenizer_config_json, path));
  return build_tokenizer(std::move(parsed.spec), path);
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(const checkpoint::Checkpoint& checkpoint) {
  const std::string path(checkpoint.path());
  if (checkpoint.is_gguf()) {
    OCTAVO_TRY(TokenizerSpec spec, spec_from_gguf(checkpoint.config(), path));
    return build_tokenizer(std::move(spec), path);
  }
  OCTAVO_TRY(const std::optional<std::string> json, checkpoint.read_file("tokenizer.json"));
  if (!json) {
    return Error{Code::kNotFound, fmt::format("{}: there is no tokenizer.json", path)};
  }
  OCTAVO_TRY(const std::optional<std::string> config,
             checkpoint.read_file("tokenizer_config.json"));
  return from_json(*json, config ? std::string_view(*config) : std::string_view(), path);
}

}  // namespace octavo::tokenizer
