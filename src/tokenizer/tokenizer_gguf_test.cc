#include <gtest/gtest.h>

#include "tokenizer/tokenizer_spec.h"

namespace octavo::tokenizer {
namespace {

using checkpoint::Metadata;
using checkpoint::MetadataObject;

Metadata text(std::string value) { return Metadata(Metadata::Value(std::move(value))); }
Metadata number(int64_t value) { return Metadata(Metadata::Value(value)); }
Metadata flag(bool value) { return Metadata(Metadata::Value(value)); }
Metadata strings(std::vector<std::string> values) {
  return Metadata(Metadata::Value(std::make_shared<std::vector<std::string>>(std::move(values))));
}
Metadata ints(std::vector<int32_t> values) {
  return Metadata(Metadata::Value(std::make_shared<std::vector<int32_t>>(std::move(values))));
}

/// The metadata of a small file; `key` (without its prefix) is replaced or removed by tests.
struct Gguf {
  std::map<std::string, Metadata> values{
      {"model", text("gpt2")},
      {"pre", text("gpt-2")},
      {"tokens", strings({"<s>", "<think>", "a", "b", "ab", "Ġ", "1", "2", "12", "<", "s", ">"})},
      {"token_type", ints({3, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})},
      {"merges", strings({"a b", "1 2"})},
      {"bos_token_id", number(0)},
      {"eos_token_id", number(0)}};

  Gguf with(const std::string& key, Metadata value) && {
    values[key] = std::move(value);
    return std::move(*this);
  }
  Result<std::unique_ptr<Tokenizer>> load() const {
    auto object = std::make_shared<MetadataObject>();
    for (const auto& [key, value] : values) (*object)["tokenizer.ggml." + key] = value;
    const Metadata metadata{Metadata::Value(object)};
    OCTAVO_TRY(TokenizerSpec spec, spec_from_gguf(metadata, "x.gguf"));
    return build_tokenizer(std::move(spec), "x.gguf");
  }
  std::vector<TokenId> encode(std::string_view input) const {
    auto tokenizer = load();
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    return (*tokenizer)->encode(input, {});
  }
  std::string error() const {
    auto tokenizer = load();
    EXPECT_FALSE(tokenizer.ok());
    return tokenizer.ok() ? "" : tokenizer.error().message;
  }
};

using Ids = std::vector<TokenId>;

TEST(TokenizerGguf, TypesTellControlFromUserDefinedTokens) {
  const auto tokenizer = Gguf().load().value();
  EXPECT_TRUE(tokenizer->is_special(0));
  EXPECT_FALSE(tokenizer->is_special(1));
  EXPECT_EQ(tokenizer->encode("ab<s> 12<think>", {}), (Ids{4, 0, 5, 8, 1}));
  const std::vector<TextSpan> all{{0, 15}};
  EXPECT_EQ(tokenizer->encode("ab<s> 12<think>", {.untrusted = all}), (Ids{4, 9, 10, 11, 5, 8, 1}));
}

TEST(TokenizerGguf, ThePreNameChoosesTheCuts) {
  EXPECT_EQ(Gguf().encode("12"), (Ids{8}));
  EXPECT_EQ(Gguf().with("pre", text("smollm")).encode("12"), (Ids{6, 7}));
  EXPECT_EQ(Gguf().with("pre", text("qwen2")).encode("12"), (Ids{6, 7}));
  EXPECT_EQ(Gguf().with("pre", text("llama-bpe")).encode("12"), (Ids{0, 8}));  // with its BOS
  EXPECT_EQ(Gguf().with("pre", text("default")).encode("ab 12"), (Ids{4, 5, 8}));
  EXPECT_EQ(Gguf().with("pre", text("mystery")).error(),
            "x.gguf: tokenizer.ggml.pre: \"mystery\" is not supported");
}

TEST(TokenizerGguf, BosAndEosAreAddedAsTheFileSays) {
  EXPECT_EQ(Gguf().with("add_bos_token", flag(true)).encode("a"), (Ids{0, 2}));
  EXPECT_EQ(Gguf().with("add_eos_token", flag(true)).encode("a"), (Ids{2, 0}));
  EXPECT_EQ(Gguf().with("pre", text("llama3")).with("add_bos_token", flag(false)).encode("a"),
            (Ids{2}));
}

TEST(TokenizerGguf, CorruptMetadataIsAnErrorThatNamesTheKey) {
  const std::pair<const char*, Metadata> cases[] = {{"model", Metadata()},
                                                    {"model", text("llama")},
                                                    {"model", number(1)},
                                                    {"pre", number(1)},
                                                    {"tokens", Metadata()},
                                                    {"tokens", ints({1})},
                                                    {"token_type", ints({1})},
                                                    {"token_type", text("x")},
                                                    {"merges", Metadata()},
                                                    {"merges", number(1)},
                                                    {"merges", strings({"ab"})},
                                                    {"bos_token_id", number(12)},
                                                    {"bos_token_id", number(-1)},
                                                    {"bos_token_id", text("x")},
                                                    {"eos_token_id", number(int64_t{1} << 40)},
                                                    {"add_bos_token", number(1)}};
  for (const auto& [key, value] : cases) {
    const std::string message = Gguf().with(key, value).error();
    EXPECT_NE(message.find(std::string("tokenizer.ggml.") + key), std::string::npos) << message;
  }
  EXPECT_NE(Gguf().with("merges", strings({"a z"})).error(), "");
  EXPECT_NE(Gguf().with("tokens", strings({})).with("token_type", ints({})).error(), "");
}

}  // namespace
}  // namespace octavo::tokenizer
