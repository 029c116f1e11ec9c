#include <fmt/format.h>

#include <utility>

#include "tokenizer/scanner.h"
#include "tokenizer/tokenizer_spec.h"

namespace octavo::tokenizer {
namespace {

using checkpoint::Metadata;

/// How the words of a family are cut; what tokenizer.json would say and GGUF only names.
struct GgufPreTokenizer {
  std::string_view name;  // tokenizer.ggml.pre
  std::string_view pattern;
  bool single_digits = false;  // each number alone, before the pattern
  bool nfc = false;            // the family's tokenizer.json normalises so
  bool ignore_merges = false;
  bool add_bos = false;  // unless tokenizer.ggml.add_bos_token says otherwise
};

// Names as llama.cpp's converter writes them.
constexpr GgufPreTokenizer kPreTokenizers[] = {
    {"gpt-2", kGpt2Pattern},
    {"phi-2", kGpt2Pattern},
    {"olmo", kGpt2Pattern},
    {"jina-v2-code", kGpt2Pattern},
    {"smollm", kGpt2Pattern, true},
    {"starcoder", kGpt2Pattern, true},
    {"refact", kGpt2Pattern, true},
    {"command-r", kGpt2Pattern, true},
    {"codeshell", kGpt2Pattern, true},
    {"llama3", kLlama3Pattern, false, false, true, true},
    {"llama-v3", kLlama3Pattern, false, false, true, true},
    {"llama-bpe", kLlama3Pattern, false, false, true, true},
    {"dbrx", kLlama3Pattern},
    {"smaug-bpe", kLlama3Pattern},
    {"qwen2", kQwen2Pattern, false, true},
    {"qwen35", kQwen2MarksPattern, false, true},
    {"stablelm2", kQwen2Pattern},
    {"deepseek-r1-qwen", kQwen2Pattern},
    {"megrez", kQwen2Pattern},
    {"hunyuan", kQwen2Pattern},
};

// llama.cpp's cuts for files without a name, in this order.
constexpr std::string_view kDefaultPatterns[] = {
    R"([\p{P}$+<=>^~|]+)",
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))",
    R"(\p{N}+)",
    R"([0-9][0-9][0-9])",
};

enum GgufTokenType : int32_t { kNormal = 1, kControl = 3, kUserDefined = 4 };

Error gguf_error(std::string_view path, std::string_view key, std::string_view what,
                 Code code = Code::kInvalidArgument) {
  return {code, fmt::format("{}: tokenizer.ggml.{}: {}", path, key, what)};
}

const Metadata* find(const Metadata& metadata, std::string_view key) {
  return metadata.find(fmt::format("tokenizer.ggml.{}", key));
}

Result<bool> bool_or(const Metadata& metadata, std::string_view key, bool fallback,
                     std::string_view path) {
  const Metadata* value = find(metadata, key);
  if (value == nullptr) return fallback;
  const std::optional<bool> given = value->as_bool();
  if (!given) return gguf_error(path, key, "is no bool");
  return *given;
}

/// A token id that may be missing (kNoToken).
Result<TokenId> id_or_none(const Metadata& metadata, std::string_view key, int64_t vocab_size,
                           std::string_view path) {
  const Metadata* value = find(metadata, key);
  if (value == nullptr) return kNoToken;
  const std::optional<int64_t> id = value->as_int();
  if (!id || *id < 0 || *id >= vocab_size) {
    return gguf_error(path, key, fmt::format("is no token id below {}", vocab_size));
  }
  return TokenId(*id);
}

Result<const std::vector<std::string>*> strings_of(const Metadata& metadata, std::string_view key,
                                                   std::string_view path) {
  const Metadata* value = find(metadata, key);
  if (value == nullptr) return gguf_error(path, key, "is missing");
  const std::vector<std::string>* strings = value->as_strings();
  if (strings == nullptr) return gguf_error(path, key, "is no array of strings");
  return strings;
}

Status read_tokens(const Metadata& metadata, std::string_view path, TokenizerSpec& spec) {
  OCTAVO_TRY(const std::vector<std::string>* tokens, strings_of(metadata, "tokens", path));
  if (int64_t(tokens->size()) > kMaxVocabSize) {
    return gguf_error(path, "tokens", fmt::format("has more than {} entries", kMaxVocabSize));
  }
  const std::vector<int32_t>* types = nullptr;
  if (const Metadata* value = find(metadata, "token_type")) {
    types = value->as_int32s();
    if (types == nullptr || types->size() != tokens->size()) {
      return gguf_error(path, "token_type", "is no array of one integer per token");
    }
  }
  spec.vocab.reserve(tokens->size());
  for (size_t id = 0; id < tokens->size(); ++id) {
    const std::string& text = (*tokens)[id];
    const int32_t type = types ? (*types)[id] : int32_t{kNormal};
    if ((type == kControl || type == kUserDefined) && !text.empty()) {
      AddedToken token;
      token.id = TokenId(id);
      token.content = text;
      token.special = type == kControl;
      spec.added.push_back(std::move(token));
    }
    spec.vocab.emplace_back(text, TokenId(id));
  }
  return {};
}

Status read_merges(const Metadata& metadata, std::string_view path, TokenizerSpec& spec) {
  OCTAVO_TRY(const std::vector<std::string>* merges, strings_of(metadata, "merges", path));
  spec.merges.reserve(merges->size());
  for (const std::string& merge : *merges) {
    const std::string_view text = merge;
    const size_t space = text.find(' ', 1);  // as llama.cpp: never an empty left part
    if (space == std::string_view::npos) {
      return gguf_error(path, "merges",
                        fmt::format("entry {} is no pair of tokens", spec.merges.size()));
    }
    spec.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return {};
}

SplitStep pattern_step(std::string_view pattern) {
  return SplitStep{*Scanner::for_pattern(pattern)};
}

Status set_default(TokenizerSpec& spec) {
  for (const std::string_view pattern : kDefaultPatterns) {
    OCTAVO_TRY(Regex regex, Regex::create(pattern));
    spec.pre_tokenizer.push_back(SplitStep{std::move(regex)});
  }
  return {};
}

Status read_pre_tokenizer(const Metadata& metadata, std::string_view path, TokenizerSpec& spec,
                          bool& add_bos) {
  const Metadata* value = find(metadata, "pre");
  std::string_view name = "default";
  if (value != nullptr) {
    if (value->as_string() == nullptr) return gguf_error(path, "pre", "is no string");
    name = *value->as_string();
  }
  if (name == "default") return set_default(spec);
  for (const GgufPreTokenizer& known : kPreTokenizers) {
    if (known.name != name) continue;
    if (known.single_digits) spec.pre_tokenizer.push_back(SplitStep{CharPattern::kNumeric});
    spec.pre_tokenizer.push_back(pattern_step(known.pattern));
    if (known.nfc) {
      std::vector<Normalizer::Step> steps;
      steps.emplace_back(UnicodeForm::kNfc);
      spec.normalizer = Normalizer(std::move(steps));
    }
    spec.ignore_merges = known.ignore_merges;
    add_bos = known.add_bos;
    return {};
  }
  return gguf_error(path, "pre", fmt::format("\"{}\" is not supported", name), Code::kUnsupported);
}

Status read_special_ids(const Metadata& metadata, std::string_view path, bool add_bos,
                        TokenizerSpec& spec) {
  const auto vocab_size = int64_t(spec.vocab.size());
  OCTAVO_TRY(const TokenId bos, id_or_none(metadata, "bos_token_id", vocab_size, path));
  OCTAVO_TRY(const TokenId eos, id_or_none(metadata, "eos_token_id", vocab_size, path));
  if (bos >= 0) spec.bos_token = spec.vocab[bos].first;
  if (eos >= 0) spec.eos_token = spec.vocab[eos].first;
  OCTAVO_TRY(add_bos, bool_or(metadata, "add_bos_token", add_bos, path));
  OCTAVO_TRY(const bool add_eos, bool_or(metadata, "add_eos_token", false, path));
  if (add_bos && bos >= 0) spec.prefix_ids.push_back(bos);
  if (add_eos && eos >= 0) spec.suffix_ids.push_back(eos);
  return {};
}

}  // namespace

Result<TokenizerSpec> spec_from_gguf(const Metadata& metadata, std::string_view path) {
  const Metadata* model = find(metadata, "model");
  if (model == nullptr || model->as_string() == nullptr) {
    return gguf_error(path, "model", "is missing");
  }
  if (*model->as_string() != "gpt2") {
    return gguf_error(path, "model",
                      fmt::format("\"{}\" is not supported (\"gpt2\" is)", *model->as_string()),
                      Code::kUnsupported);
  }
  TokenizerSpec spec;
  bool add_bos = false;
  OCTAVO_TRY(read_tokens(metadata, path, spec));
  OCTAVO_TRY(read_merges(metadata, path, spec));
  OCTAVO_TRY(read_pre_tokenizer(metadata, path, spec, add_bos));
  OCTAVO_TRY(read_special_ids(metadata, path, add_bos, spec));
  return spec;
}

}  // namespace octavo::tokenizer
