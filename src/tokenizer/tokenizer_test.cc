#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "tokenizer/test_tokenizers.h"

namespace octavo::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

/// A tokenizer.json of single letters and what `changes` puts in place of its parts.
struct JsonParts {
  std::string added = R"([
    {"id": 4, "content": "<|end|>", "special": true},
    {"id": 5, "content": "<think>", "special": false, "normalized": false},
    {"id": 6, "content": "<|end", "special": false, "normalized": false},
    {"id": 7, "content": "<s>", "special": true, "lstrip": true, "rstrip": true},
    {"id": 8, "content": "ab", "special": false, "single_word": true, "normalized": false}])";
  std::string normalizer = "null";
  std::string pre = R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})";
  std::string post = "null";
  std::string decoder = R"({"type": "ByteLevel"})";
  std::string model = R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "<": 2, "Ġ": 3, "|": 9, ">": 10,
    "e": 11, "n": 12, "d": 13, "Ã": 14, "©": 15, "ab": 8}, "merges": []})";

  std::string json() const {
    return R"({"added_tokens": )" + added + R"(, "normalizer": )" + normalizer +
           R"(, "pre_tokenizer": )" + pre + R"(, "post_processor": )" + post + R"(, "decoder": )" +
           decoder + R"(, "model": )" + model + "}";
  }
  Result<std::unique_ptr<Tokenizer>> load() const {
    return Tokenizer::from_json(json(), "", "kit");
  }
  std::unique_ptr<Tokenizer> tokenizer() const {
    auto loaded = load();
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    return std::move(loaded).value();
  }
  std::string error() const {
    auto loaded = load();
    EXPECT_FALSE(loaded.ok());
    return loaded.ok() ? "" : loaded.error().message;
  }
};

Ids encode(const Tokenizer& tokenizer, std::string_view text,
           std::vector<TextSpan> untrusted = {}) {
  return tokenizer.encode(text, {.untrusted = untrusted});
}

TEST(Tokenizer, SpecialTokensInUntrustedTextStayText) {
  const auto tokenizer = JsonParts().tokenizer();
  EXPECT_EQ(encode(*tokenizer, "a<|end|>b"), (Ids{0, 4, 1}));
  // Not the control token, but the shorter added token that is no control token.
  EXPECT_EQ(encode(*tokenizer, "a<|end|>b", {{1, 8}}), (Ids{0, 6, 9, 10, 1}));
  EXPECT_EQ(encode(*tokenizer, "a<think>b", {{0, 9}}), (Ids{0, 5, 1}));
}

TEST(Tokenizer, OneUntrustedByteIsEnough) {
  const auto tokenizer = JsonParts().tokenizer();
  for (size_t byte = 0; byte < 9; ++byte) {
    const bool touches = byte >= 1 && byte < 8;
    EXPECT_EQ(encode(*tokenizer, "a<|end|>b", {{byte, byte + 1}}) == (Ids{0, 4, 1}), !touches)
        << byte;
  }
  EXPECT_EQ(encode(*tokenizer, "<|end|><|end|><|end|>", {{7, 14}}), (Ids{4, 6, 9, 10, 4}));
}

TEST(Tokenizer, UntrustedSpansHoldInNormalisedText) {
  JsonParts parts;
  parts.added = R"([{"id": 4, "content": "<|end|>", "special": true, "normalized": true}])";
  parts.normalizer = R"({"type": "NFC"})";
  const auto tokenizer = parts.tokenizer();
  const std::string text = "e\xCC\x81<|end|>e\xCC\x81<|end|>";  // each accent shrinks by a byte
  EXPECT_EQ(encode(*tokenizer, text), (Ids{14, 15, 4, 14, 15, 4}));
  EXPECT_EQ(encode(*tokenizer, text, {{0, 3}, {13, 20}}),
            (Ids{14, 15, 4, 14, 15, 2, 9, 11, 12, 13, 9, 10}));
  EXPECT_EQ(encode(*tokenizer, text, {{3, 10}}), (Ids{14, 15, 2, 9, 11, 12, 13, 9, 10, 14, 15, 4}));
}

TEST(Tokenizer, AddedTokensStripAndStandAlone) {
  const auto tokenizer = JsonParts().tokenizer();
  EXPECT_EQ(encode(*tokenizer, "a  <s>  b"), (Ids{0, 7, 1}));
  EXPECT_EQ(encode(*tokenizer, "ab"), (Ids{8}));
  EXPECT_EQ(encode(*tokenizer, "aab"), (Ids{0, 0, 1}));
  EXPECT_EQ(encode(*tokenizer, "ab\xC3\xA9").size(), 4u);
}

TEST(Tokenizer, TemplateSurroundsTheText) {
  JsonParts parts;
  parts.post = R"({"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
      {"SpecialToken": {"id": "<|end|>", "type_id": 0}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [7], "tokens": ["<s>"]},
                       "<|end|>": {"id": "<|end|>", "ids": [4], "tokens": ["<|end|>"]}}})";
  const auto tokenizer = parts.tokenizer();
  EXPECT_EQ(tokenizer->encode("ba", {}), (Ids{7, 1, 0, 4}));
  EXPECT_EQ(tokenizer->encode("ba", {.add_special_tokens = false}), (Ids{1, 0}));
  EXPECT_EQ(tokenizer->encode("", {}), (Ids{7, 4}));
}

TEST(Tokenizer, MaxTokensEndsTheWork) {
  const auto tokenizer = kit_tokenizer("llama");
  std::string text;
  while (text.size() < (1 << 20)) text += "hello world ";
  const Ids all = tokenizer->encode(text, {});
  const Ids some = tokenizer->encode(text, {.max_tokens = 100});
  ASSERT_GE(some.size(), 100u);
  EXPECT_LE(some.size(), 100 + tokenizer->max_token_bytes());
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));
}

TEST(Tokenizer, InvalidUtf8IsReadAsReplacementCharacters) {
  const auto tokenizer = kit_tokenizer("llama");
  EXPECT_EQ(tokenizer->encode("a\xFFz<|eos|>\xE2\x82", {}),
            tokenizer->encode("a\xEF\xBF\xBDz<|eos|>\xEF\xBF\xBD", {}));
  const std::vector<TextSpan> all{{0, 8}};
  const Ids ids = tokenizer->encode("\xFF<|eos|>", {.untrusted = all});
  EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer->find("<|eos|>")), 0);
}

TEST(Tokenizer, FactsAboutTokens) {
  const auto tokenizer = kit_tokenizer("llama");
  EXPECT_EQ(tokenizer->vocab_size(), 512);
  EXPECT_EQ(tokenizer->bos_token(), "<|bos|>");
  EXPECT_EQ(tokenizer->bos_token_id(), 0);
  EXPECT_EQ(tokenizer->eos_token_id(), 1);
  EXPECT_TRUE(tokenizer->is_special(1));
  EXPECT_FALSE(tokenizer->is_special(100));
  const TokenId the = tokenizer->find("Ġthe");
  ASSERT_GE(the, 0);
  EXPECT_EQ(tokenizer->token_bytes(the), " the");
  EXPECT_EQ(tokenizer->token_string(the), "Ġthe");
  EXPECT_EQ(tokenizer->find("no such token"), -1);
}

TEST(Tokenizer, IdsOutsideTheVocabularyGiveNothing) {
  const auto tokenizer = kit_tokenizer("llama");
  for (const TokenId id : {-1, 512, INT32_MAX, INT32_MIN}) {
    EXPECT_FALSE(tokenizer->is_known(id));
    EXPECT_FALSE(tokenizer->is_special(id));
    EXPECT_EQ(tokenizer->token_bytes(id), "");
    EXPECT_EQ(tokenizer->token_string(id), "");
    EXPECT_EQ(tokenizer->decode(Ids{id}, false), "");
  }
}

TEST(IncrementalDecoder, PiecesJoinToTheWholeTextWhateverTheIds) {
  const auto tokenizer = kit_tokenizer("llama");
  std::mt19937 random(4);
  for (int round = 0; round < 3000; ++round) {
    Ids ids(random() % 24);
    // Half of the rounds use byte tokens only, so that broken characters are frequent.
    for (TokenId& id : ids) id = TokenId(random() % (round % 2 ? 263 : 530));
    for (const bool skip : {false, true}) {
      ASSERT_EQ(decode_incrementally(*tokenizer, ids, skip), tokenizer->decode(ids, skip));
    }
  }
}

TEST(IncrementalDecoder, NeverEmitsHalfACharacter) {
  const auto tokenizer = kit_tokenizer("llama");
  const std::string text = "\xF0\x9F\x8C\xB6\xEF\xB8\x8F \xE4\xBD\xA0\xE5\xA5\xBD \xC3\xA9";
  IncrementalDecoder decoder(*tokenizer, true);
  std::string joined;
  for (const TokenId id : tokenizer->encode(text, {})) {
    const std::string piece = decoder.push(id);
    EXPECT_EQ(piece.find("\xEF\xBF\xBD"), std::string::npos);
    joined += piece;
    EXPECT_EQ(text.compare(0, joined.size(), joined), 0);
    if (joined.size() < text.size()) {
      EXPECT_NE(static_cast<unsigned char>(text[joined.size()]) & 0xC0, 0x80) << "a cut character";
    }
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(decoder.finish(), "");
}

TEST(IncrementalDecoder, AnIncompleteCharacterIsReplacedAtTheEndOnly) {
  const auto tokenizer = kit_tokenizer("llama");
  const Ids ids = tokenizer->encode("\xE4\xBD\xA0", {.add_special_tokens = false});
  ASSERT_GT(ids.size(), 1u);
  IncrementalDecoder decoder(*tokenizer, true);
  EXPECT_EQ(decoder.push(ids[0]), "");
  EXPECT_EQ(decoder.finish(), "\xEF\xBF\xBD");
}

// Quadratic work on these would take minutes; linear takes a fraction of a second.
TEST(Tokenizer, HostileTextTakesLinearTime) {
  constexpr size_t kBytes = 1 << 20;
  const char* parts[] = {"a",
                         " ",
                         "\n",
                         "ab",
                         "a ",
                         "'",
                         "<",
                         "<|eos|",
                         "1",
                         " \n",
                         "\xCC\x81\xCC\xA3",
                         "\xE2\x80\x8D",
                         "\xE3\x80\x80"};
  for (const char* kit : {"llama", "llama-rope-scaled", "qwen2"}) {
    const auto tokenizer = kit_tokenizer(kit);
    for (const std::string part : parts) {
      std::string text;
      while (text.size() < kBytes) text += part;
      const auto start = std::chrono::steady_clock::now();
      const Ids ids = tokenizer->encode(text, {.add_special_tokens = false});
      const auto spent = std::chrono::steady_clock::now() - start;
      EXPECT_LT(std::chrono::duration<double>(spent).count(), 20.0) << kit << ": " << part;
      EXPECT_GT(ids.size(), 0u);
    }
  }
}

TEST(Tokenizer, ManyThreadsEncodeAlike) {
  const auto tokenizer = kit_tokenizer("qwen2");
  const std::string text = "The quick brown fox, \xC3\xA9t\xC3\xA9 and 12345 <|eos|> jump over it.";
  const Ids expected = kit_tokenizer("qwen2")->encode(text, {});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) EXPECT_EQ(tokenizer->encode(text, {}), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TokenizerJson, ErrorsNameTheComponent) {
  JsonParts parts;
  parts.model = R"({"type": "Unigram", "vocab": []})";
  EXPECT_EQ(parts.error(), "kit: model.type: \"Unigram\" is not supported");
  parts = {};
  parts.model = R"({"vocab": {"a": 0}, "merges": [], "byte_fallback": true})";
  EXPECT_EQ(parts.error(), "kit: model.byte_fallback: true is not supported");
  parts = {};
  parts.normalizer = R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Bert"}]})";
  EXPECT_EQ(parts.error(), "kit: normalizer.normalizers[1]: \"Bert\" is not supported");
  parts = {};
  parts.pre = R"({"type": "Metaspace"})";
  EXPECT_EQ(parts.error(), "kit: pre_tokenizer: \"Metaspace\" is not supported");
  parts = {};
  parts.decoder = R"({"type": "WordPiece"})";
  EXPECT_EQ(parts.error(), "kit: decoder: \"WordPiece\" is not supported");
  parts = {};
  parts.post = R"({"type": "BertProcessing"})";
  EXPECT_EQ(parts.error(), "kit: post_processor: \"BertProcessing\" is not supported");
}

TEST(TokenizerJson, CorruptModelsAreErrors) {
  for (const char* model : {"null",
                            "[]",
                            "1",
                            "{}",
                            R"({"vocab": [], "merges": []})",
                            R"({"vocab": {}, "merges": []})",
                            R"({"vocab": {"a": "0"}, "merges": []})",
                            R"({"vocab": {"a": -1}, "merges": []})",
                            R"({"vocab": {"a": 0.5}, "merges": []})",
                            R"({"vocab": {"a": 4294967296}, "merges": []})",
                            R"({"vocab": {"a": 2147483647}, "merges": []})",
                            R"({"vocab": {"a": 18446744073709551615}, "merges": []})",
                            R"({"vocab": {"a": 0}, "merges": {}})",
                            R"({"vocab": {"a": 0}, "merges": ["a"]})",
                            R"({"vocab": {"a": 0}, "merges": ["a a a"]})",
                            R"({"vocab": {"a": 0}, "merges": ["a a"]})",
                            R"({"vocab": {"a": 0}, "merges": [["a"]]})",
                            R"({"vocab": {"a": 0}, "merges": [[1, 2]]})",
                            R"({"vocab": {"a": 0}, "merges": ["a b"]})",
                            R"({"vocab": {"a": 0}, "merges": [], "unk_token": "zz"})",
                            R"({"vocab": {"a": 0}, "merges": [], "unk_token": 7})",
                            R"({"vocab": {"a": 0}, "merges": [], "dropout": 0.1})",
                            R"({"vocab": {"a": 0}, "merges": [], "ignore_merges": 1})"}) {
    JsonParts parts;
    parts.model = model;
    EXPECT_NE(parts.error(), "") << model;
  }
}

TEST(TokenizerJson, CorruptPartsAreErrors) {
  auto deep = [](const char* key) {
    std::string json = R"({"type": "ByteLevel"})";
    for (int i = 0; i < 100; ++i) {
      json = R"({"type": "Sequence", ")" + std::string(key) + R"(": [)" + json + "]}";
    }
    return json;
  };
  for (const char* added :
       {"{}", "7", "[1]", "[{}]", R"([{"id": "1", "content": "x"}])",
        R"([{"id": -5, "content": "x"}])", R"([{"id": 99999999, "content": "x"}])",
        R"([{"id": 1, "content": 2}])", R"([{"id": 1, "content": "x", "special": "yes"}])"}) {
    JsonParts parts;
    parts.added = added;
    EXPECT_NE(parts.error(), "") << added;
  }
  for (const std::string& pre :
       {std::string("null"), std::string("[]"), std::string("{}"), std::string(R"({"type": 1})"),
        std::string(R"({"type": "Sequence"})"), deep("pretokenizers"),
        std::string(R"({"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"})"),
        std::string(R"({"type": "Split", "pattern": {"Regex": 1}})"),
        std::string(R"({"type": "Split", "pattern": {"String": ""}})"),
        std::string(R"({"type": "Split", "pattern": {"String": "x"}, "behavior": "Odd"})"),
        std::string(R"({"type": "ByteLevel", "use_regex": 3})")}) {
    JsonParts parts;
    parts.pre = pre;
    EXPECT_NE(parts.error(), "") << pre;
  }
  for (const std::string& post :
       {deep("processors"), std::string(R"({"type": "TemplateProcessing"})"),
        std::string(R"({"type": "TemplateProcessing", "single": []})"),
        std::string(R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}]})"),
        std::string(R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}},
          {"Sequence": {"id": "A"}}], "special_tokens": {"x": {"ids": [999]}}})")}) {
    JsonParts parts;
    parts.post = post;
    EXPECT_NE(parts.error(), "") << post;
  }
}

TEST(TokenizerJson, AnyCutOfTheFileIsAnError) {
  const std::string whole = JsonParts().json();
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(Tokenizer::from_json(whole.substr(0, size), "", "kit").ok()) << size;
  }
}

TEST(TokenizerJson, DeepNestingIsAnError) {
  EXPECT_FALSE(Tokenizer::from_json(std::string(100000, '['), "", "kit").ok());
  EXPECT_FALSE(Tokenizer::from_json(JsonParts().json(), std::string(100000, '['), "kit").ok());
}

TEST(TokenizerJson, SpecialTokensOfTheConfig) {
  const auto tokenizer =
      Tokenizer::from_json(JsonParts().json(),
                           R"({"bos_token": null, "eos_token": {"content": "<|end|>"},
          "model_max_length": 1000000000000000019884624838656})",
                           "kit");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->bos_token_id(), -1);
  EXPECT_EQ((*tokenizer)->eos_token_id(), 4);
}

TEST(TokenizerJson, TokensOfTheConfigAloneAreAdded) {
  const std::string config = R"({"added_tokens_decoder": {
      "900": {"content": "<late>", "special": true},
      "901": {"content": "<tool>", "lstrip": true},
      "902": {"content": "<|end|>", "special": false}}})";
  const auto loaded = Tokenizer::from_json(JsonParts().json(), config, "kit");
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const Tokenizer& tokenizer = **loaded;
  const auto plain = JsonParts().tokenizer();
  const auto next = static_cast<TokenId>(plain->vocab_size());
  // The next free ids, whatever the file says.
  EXPECT_EQ(tokenizer.encode("<late><tool>", {}), (std::vector<TokenId>{next, next + 1}));
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{next, next + 1}, true), "<tool>");
  EXPECT_EQ(tokenizer.encode("<|end|>", {}), plain->encode("<|end|>", {}));
  for (const char* wrong :
       {R"([])", R"({"x": {"content": "a"}})", R"({"-1": {"content": "a"}})", R"({"1": "a"})",
        R"({"99999999999999999999": {"content": "a"}})", R"({"1": {"content": 5}})"}) {
    const auto refused = Tokenizer::from_json(
        JsonParts().json(), R"({"added_tokens_decoder": )" + std::string(wrong) + "}", "kit");
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_NE(refused.error().message.find("added_tokens_decoder"), std::string::npos);
  }
}

}  // namespace
}  // namespace octavo::tokenizer
