#include "engine/kv_cache/block_hash.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

namespace octavo::engine {
namespace {

std::string hex(const BlockHash& hash) {
  std::string out;
  for (const uint8_t byte : hash) out += fmt::format("{:02x}", byte);
  return out;
}

std::string repeat(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

std::vector<TokenId> iota(int first, int count) {
  std::vector<TokenId> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

std::vector<BlockHash> hash_all(const BlockHasher& hasher, std::string_view salt) {
  std::vector<BlockHash> hashes;
  hasher.extend(hashes, iota(0, 33), 16, salt);
  return hashes;
}

TEST(BlockHash, ReproducesPublishedVectorsOfCbor) {
  const BlockHasher hasher(HashAlgorithm::kSha256Cbor, std::nullopt);
  EXPECT_EQ(hex(hasher.none_hash()),
            "9bd96a485ad84efdafb72ee48a1d7a69bcead0f8f0433173941b276b9581eef0");
  const auto hashes = hash_all(hasher, "");
  ASSERT_EQ(hashes.size(), 2u);
  EXPECT_EQ(hex(hashes[0]), "dc918a88b139e5afe60b88eda27508d4aee16c10fdc354791efea06206ac0749");
  EXPECT_EQ(hex(hashes[1]), "c300ec275d7bf08af8fc63e76cdc0086911bbc7091e03c5cf892553bef84ef0c");
  EXPECT_EQ(hex(hash_all(hasher, "salt")[0]),
            "7c4f338bf4132118ae598f1bcb5c93be071e54994a593edd91b7feb744ba6ef8");
  EXPECT_EQ(block_hash_as_int(hashes[0], hasher.algorithm()), 2233398808101521225);
}

TEST(BlockHash, ReproducesPublishedVectorsOfPickle) {
  const BlockHasher hasher(HashAlgorithm::kSha256, std::nullopt);
  EXPECT_EQ(hex(hasher.none_hash()),
            "066b1e8987e027138e98701c46128929378935f9b6cd1549105ae6b4f0d71198");
  const auto hashes = hash_all(hasher, "");
  EXPECT_EQ(hex(hashes[0]), "fe8fa5dda3210d0ca2031e37cbe3b001186773cd1c710beb2d45fcb51d434798");
  EXPECT_EQ(hex(hashes[1]), "8be7aaa33831156d316f1f463ae57e643deb63f42e633e2d631df88815cc4629");
  EXPECT_EQ(hex(hash_all(hasher, "salt")[0]),
            "6cb493e72f0512827a5b2382a86d950fe713d54febd18092b8c02418c50fcd40");
  EXPECT_EQ(block_hash_as_int(hashes[0], hasher.algorithm()), 3262291359910021016);
}

// Made with Python 3.11: sha256 of pickle.dumps((NONE_HASH, tokens, None or (salt,)), protocol=5).
// Sizes of integers (1, 2, 4 bytes), of tuples (1 to 3 items, more) and of strings all change the
// opcodes.
TEST(BlockHash, PicklesAsPythonDoes) {
  const struct {
    int count;
    int64_t first, stride;
    std::string salt, expected;
  } cases[] = {
      {1, 0, 0, "", "1876a790824e1c62cc68ce0472a1542ccc7bf2d1d5c9e53827fc516bb9f88601"},
      {2, 255, 1, "", "b84f361dc899e36b2347a6679ded1c44d488911a1ebb3529f6621c03918bd793"},
      {3, 65535, 1, "", "9a33d9314c573808f93d5cf4ad692bdba1396a26c73e7f5e039409a3d747a887"},
      {4, 254, 1, "", "d45e303c4cd81936a2d5b3f2de4d419f107a101ff30bd1df263980f73ac86600"},
      {16, 65530, 1, "", "20bfeb0a91ce816900de512131e4ee309c11639e566e94aa3961be77959324bd"},
      {16, 2147483640, 1, "", "fc19963343db4fa24ceab30e98a201d2a1b5246f2b2e89896f14a2ba71d4bc95"},
      {16, 0, 17, "salt", "89387236ad6b0229450e60c84a7988217c10f1b1b55b81bce6dd32bbe245d7ef"},
      {128, 1000, 997, repeat("s", 255),
       "6d11410d635deb7116226f07d9ae860d2a2530d90a621921965185b64ce258d4"},
      {16, 5, 3, repeat("s", 256),
       "54a946ced2e91359b997e260093ae9e2431548190001fba8a5c404c31aa003ab"},
      {16, 5, 3, repeat("\xc3\xa9", 128),
       "741051cf64299e63329d4275726555516d37addffde8e802b3252ea05c9c5a9b"},
      {8192, 100000, 1, repeat("x", 1024),
       "25250c30de9d3b64881d97e7e491d53f6fbc66f564585da469e3f13ec198d074"},
      {16, 7, 0, "", "5cdb983da3c2e9c7f2b49663c8c6993487b70becffab0ddc8a8344804798e44a"},
  };
  const BlockHasher hasher(HashAlgorithm::kSha256, std::nullopt);
  for (const auto& c : cases) {
    std::vector<TokenId> tokens;
    for (int i = 0; i < c.count; ++i) {
      tokens.push_back(static_cast<TokenId>((c.first + i * c.stride) % (int64_t{1} << 31)));
    }
    std::vector<BlockHash> hashes;
    hasher.extend(hashes, tokens, c.count, c.salt);
    ASSERT_EQ(hashes.size(), 1u);
    EXPECT_EQ(hex(hashes[0]), c.expected) << c.count << " tokens from " << c.first;
  }
}

TEST(BlockHash, SeedOfTheEnvironmentChangesTheChain) {
  EXPECT_EQ(hex(BlockHasher(HashAlgorithm::kSha256, "0").none_hash()),
            "1973e23848344dc43a988a9b478663803cfffe1243480253f9a3cf004b14aa7c");
  EXPECT_EQ(hex(BlockHasher(HashAlgorithm::kSha256, repeat("\xc3\xa9", 200)).none_hash()),
            "19baf4eec3752328fe58320f2fe06edf44edb0cb8ea652d6af3e04984ce7e6d2");
  EXPECT_EQ(hex(BlockHasher(HashAlgorithm::kSha256, "").none_hash()),
            "3279c4b947f331d055c47442171c9ea17712596bd7fe094c31d4a5d432b42d68");
}

TEST(BlockHash, XxhashHasSixteenBytesAndARandomSeedUnlessGiven) {
  const BlockHasher a(HashAlgorithm::kXxhash, "1");
  const BlockHasher b(HashAlgorithm::kXxhash, "1");
  const BlockHasher random(HashAlgorithm::kXxhash, std::nullopt);
  EXPECT_EQ(a.none_hash(), b.none_hash());
  EXPECT_NE(a.none_hash(), random.none_hash());
  EXPECT_TRUE(std::all_of(a.none_hash().begin() + 16, a.none_hash().end(),
                          [](uint8_t byte) { return byte == 0; }));
  EXPECT_NE(hash_all(a, "")[0], hash_all(BlockHasher(HashAlgorithm::kXxhashCbor, "1"), "")[0]);
}

TEST(BlockHash, CborUsesShortestIntegers) {
  const std::vector<TokenId> tokens = {23, 24, 255, 256, 65535, 65536};
  EXPECT_EQ(cbor_block("p", tokens, {}),
            std::string("\x83\x41p\x86\x17\x18\x18\x18\xff\x19\x01\x00\x19\xff\xff\x1a\x00\x01\x00"
                        "\x00\xf6",
                        21));
}

TEST(BlockHash, SaltAndParentReachEveryLaterBlock) {
  const BlockHasher hasher(HashAlgorithm::kSha256, std::nullopt);
  const auto plain = hash_all(hasher, "");
  const auto salted = hash_all(hasher, "a");
  EXPECT_NE(plain[0], salted[0]);
  EXPECT_NE(plain[1], salted[1]);
}

TEST(BlockHash, ExtendContinuesWhereItStopped) {
  const BlockHasher hasher(HashAlgorithm::kSha256Cbor, std::nullopt);
  std::vector<BlockHash> steps;
  const auto tokens = iota(0, 64);
  for (size_t n = 0; n <= tokens.size(); ++n) {
    hasher.extend(steps, std::span(tokens).first(n), 16, "x");
  }
  std::vector<BlockHash> whole;
  hasher.extend(whole, tokens, 16, "x");
  EXPECT_EQ(steps, whole);
}

TEST(BlockHash, UnknownAlgorithmIsRefusedByName) {
  const auto result = parse_hash_algorithm("md5");
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("md5"), std::string::npos);
  EXPECT_EQ(*parse_hash_algorithm("xxhash_cbor"), HashAlgorithm::kXxhashCbor);
}

}  // namespace
}  // namespace octavo::engine
