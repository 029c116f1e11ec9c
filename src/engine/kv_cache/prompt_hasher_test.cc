#include "engine/kv_cache/prompt_hasher.h"

#include <gtest/gtest.h>

#include <optional>

namespace octavo::engine {
namespace {

TEST(PromptHasher, HashesThePromptOfManySamplesOnce) {
  const BlockHasher blocks(HashAlgorithm::kSha256Cbor, std::nullopt);
  PromptHasher hasher(blocks, 4);
  const std::vector<TokenId> prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto first = hasher.hash(prompt, "");
  std::vector<BlockHash> expected;
  blocks.extend(expected, prompt, 4, "");
  EXPECT_EQ(*first, expected);
  EXPECT_EQ(first->size(), 2u);
  EXPECT_EQ(hasher.hash(std::vector(prompt), ""), first);  // the very same vector
}

TEST(PromptHasher, AnotherPromptOrSaltIsHashedAnew) {
  const BlockHasher blocks(HashAlgorithm::kSha256Cbor, std::nullopt);
  PromptHasher hasher(blocks, 4);
  const std::vector<TokenId> prompt = {1, 2, 3, 4};
  const auto plain = hasher.hash(prompt, "");
  const auto salted = hasher.hash(prompt, "s");
  EXPECT_NE(*salted, *plain);
  EXPECT_NE(*hasher.hash(std::vector<TokenId>{1, 2, 3, 5}, ""), *plain);
  EXPECT_TRUE(hasher.hash(std::vector<TokenId>{1, 2, 3}, "")->empty());
  EXPECT_EQ(*hasher.hash(prompt, ""), *plain);
}

}  // namespace
}  // namespace octavo::engine
