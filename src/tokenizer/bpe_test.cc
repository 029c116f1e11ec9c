#include "tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace octavo::tokenizer {
namespace {

/// A small random vocabulary over "abcd" whose merges build on each other.
struct RandomBpe {
  std::vector<std::string> tokens = {"a", "b", "c", "d"};
  std::vector<std::pair<std::string, std::string>> merges;

  explicit RandomBpe(std::mt19937& random) {
    while (merges.size() < 60) {
      const std::string left = tokens[random() % tokens.size()];
      const std::string right = tokens[random() % tokens.size()];
      if (left.size() + right.size() > 12) continue;
      if (std::find(merges.begin(), merges.end(), std::pair(left, right)) != merges.end()) continue;
      merges.emplace_back(left, right);
      std::string joined = left;
      joined.append(right);
      if (std::find(tokens.begin(), tokens.end(), joined) == tokens.end()) {
        tokens.push_back(joined);
      }
    }
  }
  TokenizerSpec spec() const {
    TokenizerSpec spec;
    for (const std::string& token : tokens) {
      spec.vocab.emplace_back(token, TokenId(spec.vocab.size()));
    }
    for (const auto& [left, right] : merges) spec.merges.emplace_back(left, right);
    return spec;
  }
  /// The definition: joins the best pair, the leftmost of equals, again and again.
  std::vector<std::string> encode(const std::string& word) const {
    std::vector<std::string> parts;
    for (size_t i = 0; i < word.size(); ++i) parts.push_back(word.substr(i, 1));
    while (true) {
      size_t best_rank = merges.size(), best = 0;
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        const auto merge =
            std::find(merges.begin(), merges.end(), std::pair(parts[i], parts[i + 1]));
        const auto rank = size_t(merge - merges.begin());
        if (rank < best_rank) best_rank = rank, best = i;
      }
      if (best_rank == merges.size()) return parts;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + best + 1);
    }
  }
};

TEST(Bpe, ShortAndLongWordsAreTheDefinition) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    const RandomBpe reference(random);
    const TokenizerSpec spec = reference.spec();
    const Vocabulary vocabulary = Vocabulary::create(spec, "test").value();
    const Bpe bpe = Bpe::create(spec, vocabulary, "test").value();
    Bpe::Scratch scratch;
    for (const size_t size : {1, 2, 3, 7, 39, 40, 41, 80, 200}) {
      std::string word(size, 'a');
      for (char& c : word) c = char('a' + random() % 4);
      for (int again = 0; again < 2; ++again) {  // the second time through what was remembered
        std::vector<TokenId> ids;
        bpe.encode(vocabulary, word, scratch, ids);
        std::vector<std::string> parts;
        for (const TokenId id : ids) parts.emplace_back(vocabulary.string_of(id));
        ASSERT_EQ(parts, reference.encode(word)) << word;
      }
    }
  }
}

TokenizerSpec three_tokens() {
  TokenizerSpec spec;
  spec.vocab = {{"a", 0}, {"b", 1}, {"?", 2}};
  return spec;
}

std::vector<TokenId> encode(const TokenizerSpec& spec, std::string_view word) {
  const Vocabulary vocabulary = Vocabulary::create(spec, "test").value();
  const Bpe bpe = Bpe::create(spec, vocabulary, "test").value();
  Bpe::Scratch scratch;
  std::vector<TokenId> ids;
  bpe.encode(vocabulary, word, scratch, ids);
  return ids;
}

TEST(Bpe, BytesWithoutATokenAreDroppedOrUnknown) {
  TokenizerSpec spec = three_tokens();
  EXPECT_EQ(encode(spec, "axxb"), (std::vector<TokenId>{0, 1}));
  spec.unk_token.push_back('?');
  EXPECT_EQ(encode(spec, "axxb"), (std::vector<TokenId>{0, 2, 2, 1}));
  spec.fuse_unk = true;
  EXPECT_EQ(encode(spec, "axxb"), (std::vector<TokenId>{0, 2, 1}));
}

TEST(Bpe, IgnoreMergesTakesWholeWords) {
  TokenizerSpec spec = three_tokens();
  spec.vocab.emplace_back("ab", 3);
  EXPECT_EQ(encode(spec, "ab"), (std::vector<TokenId>{0, 1}));
  spec.ignore_merges = true;
  EXPECT_EQ(encode(spec, "ab"), (std::vector<TokenId>{3}));
}

TEST(Bpe, AMergeOutsideTheVocabularyIsAnError) {
  TokenizerSpec spec = three_tokens();
  spec.merges = {{"a", "b"}};
  const Vocabulary vocabulary = Vocabulary::create(spec, "test").value();
  const Result<Bpe> bpe = Bpe::create(spec, vocabulary, "test");
  ASSERT_FALSE(bpe.ok());
  EXPECT_NE(bpe.error().message.find("merge 0 (\"a\" \"b\")"), std::string::npos);
}

}  // namespace
}  // namespace octavo::tokenizer
