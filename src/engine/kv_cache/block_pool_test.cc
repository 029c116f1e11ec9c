#include "engine/kv_cache/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/kv_cache/kv_cache.h"

namespace octavo::engine {
namespace {

using testing::ElementsAre;

BlockHash hash_of(int n) {
  BlockHash hash{};
  hash[0] = static_cast<uint8_t>(n);
  hash[31] = static_cast<uint8_t>(n >> 8);
  return hash;
}

std::vector<BlockHash> hashes_from(int first, int count) {
  std::vector<BlockHash> out;
  for (int i = 0; i < count; ++i) out.push_back(hash_of(first + i));
  return out;
}

std::vector<BlockId> take(BlockPool& pool, int count) {
  std::vector<BlockId> out;
  pool.allocate(count, out);
  return out;
}

TEST(BlockPool, StartsAscendingWithoutTheNullBlock) {
  BlockPool pool(5);
  EXPECT_THAT(pool.free_list(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(pool.num_free(), 4);
  EXPECT_EQ(pool.usage(), 0.0);
  EXPECT_THAT(take(pool, 2), ElementsAre(1, 2));
  EXPECT_EQ(pool.usage(), 0.5);
}

TEST(BlockPool, PoolOfTheNullBlockAloneIsEmptyAndUnused) {
  BlockPool pool(1);
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_EQ(pool.usage(), 0.0);
}

TEST(BlockPool, UnhashedBlocksComeBackAtTheFrontTailFirst) {
  BlockPool pool(7);
  const auto table = take(pool, 3);
  pool.release(table);
  EXPECT_THAT(pool.free_list(), ElementsAre(3, 2, 1, 4, 5, 6));
}

TEST(BlockPool, HashedBlocksGoToTheBackTailFirst) {
  BlockPool pool(7);
  const auto table = take(pool, 4);
  for (int i = 0; i < 3; ++i) pool.set_hash(table[i], hash_of(i));
  pool.release(table);
  EXPECT_THAT(pool.free_list(), ElementsAre(4, 5, 6, 3, 2, 1));
}

TEST(BlockPool, HitTakesABlockOutOfTheMiddle) {
  BlockPool pool(6);
  const auto table = take(pool, 3);
  for (int i = 0; i < 3; ++i) pool.set_hash(table[i], hash_of(i));
  pool.release(table);
  pool.touch(2);
  EXPECT_THAT(pool.free_list(), ElementsAre(4, 5, 3, 1));
  pool.touch(2);
  EXPECT_EQ(pool.ref_count(2), 2);
  const BlockId again[] = {2};
  pool.release(again);
  EXPECT_EQ(pool.num_free(), 4);
  pool.release(again);
  EXPECT_THAT(pool.free_list(), ElementsAre(4, 5, 3, 1, 2));
}

TEST(BlockPool, ReuseEvictsTheHash) {
  BlockPool pool(2);
  auto table = take(pool, 1);
  pool.set_hash(table[0], hash_of(1));
  pool.release(table);
  EXPECT_EQ(pool.find(hash_of(1)), 1);
  take(pool, 1);
  EXPECT_EQ(pool.find(hash_of(1)), kNoBlock);
}

TEST(BlockPool, EqualTokensAreOtherBlocksInAnotherKvGroup) {
  BlockPool pool(5);
  const auto table = take(pool, 2);
  pool.set_hash(table[0], hash_of(1), 0);
  EXPECT_EQ(pool.find(hash_of(1), 1), kNoBlock);
  pool.set_hash(table[1], hash_of(1), 1);
  EXPECT_EQ(pool.find(hash_of(1)), table[0]);
  EXPECT_EQ(pool.find(hash_of(1), 1), table[1]);
  pool.clear_hash(table[1]);
  EXPECT_EQ(pool.find(hash_of(1), 1), kNoBlock);
  EXPECT_EQ(pool.find(hash_of(1), 0), table[0]);
}

TEST(KvCache, ATableIndexesItsBlocksInItsOwnGroup) {
  KvCache cache({.num_blocks = 9, .block_size = 4});
  const auto hashes = hashes_from(1, 2);
  BlockTable full, sliding{.group = 1};
  ASSERT_TRUE(cache.allocate(full, {.num_tokens = 8, .hashes = hashes}));
  EXPECT_TRUE(cache.find_prefix(hashes, 9, 1).empty());
  ASSERT_TRUE(cache.allocate(sliding, {.num_tokens = 8, .hashes = hashes}));
  const auto found = cache.find_prefix(hashes, 9, 1);
  EXPECT_THAT(found, ::testing::ElementsAreArray(sliding.blocks));
}

TEST(PrefixIndex, LookupReturnsTheFirstInsertedCopyStillThere) {
  PrefixIndex index(5);
  index.insert(hash_of(1), 3);
  index.insert(hash_of(1), 1);
  index.insert(hash_of(1), 2);
  EXPECT_EQ(index.find(hash_of(1)), 3);
  index.erase(hash_of(1), 1);
  EXPECT_EQ(index.find(hash_of(1)), 3);
  index.erase(hash_of(1), 3);
  EXPECT_EQ(index.find(hash_of(1)), 2);
  index.erase(hash_of(1), 2);
  EXPECT_EQ(index.find(hash_of(1)), kNoBlock);
  EXPECT_EQ(index.size(), 0u);
}

TEST(KvCache, AllocationIsAllOrNothing) {
  KvCache cache({.num_blocks = 4, .block_size = 4, .enable_prefix_caching = false});
  BlockTable table;
  EXPECT_FALSE(cache.allocate(table, {.num_tokens = 13}));
  EXPECT_TRUE(table.blocks.empty());
  EXPECT_EQ(cache.pool().num_free(), 3);
  EXPECT_TRUE(cache.allocate(table, {.num_tokens = 5}));
  EXPECT_EQ(table.blocks.size(), 2u);
  EXPECT_TRUE(cache.allocate(table, {.num_tokens = 8}));
  EXPECT_EQ(table.blocks.size(), 2u);
  EXPECT_FALSE(cache.allocate(table, {.num_tokens = 9, .num_reserved_blocks = 1}));
  cache.release(table, 8);
  EXPECT_EQ(cache.pool().num_free(), 3);
}

TEST(KvCache, LookupLeavesTheLastTokenToBeComputed) {
  KvCache cache({.num_blocks = 9, .block_size = 4});
  const auto hashes = hashes_from(0, 2);
  BlockTable table;
  ASSERT_TRUE(cache.allocate(table, {.num_tokens = 8, .hashes = hashes}));
  EXPECT_EQ(cache.find_prefix(hashes, 8).size(), 1u);
  EXPECT_EQ(cache.find_prefix(hashes, 9).size(), 2u);
  EXPECT_EQ(cache.find_prefix(hashes, 1).size(), 0u);
  EXPECT_EQ(cache.find_prefix({}, 9).size(), 0u);
}

TEST(KvCache, FreeHitBlocksCountAgainstTheRoom) {
  KvCache cache({.num_blocks = 4, .block_size = 4});
  const auto hashes = hashes_from(0, 2);
  BlockTable first;
  ASSERT_TRUE(cache.allocate(first, {.num_tokens = 8, .hashes = hashes}));
  cache.release(first, 8);
  const auto found = cache.find_prefix(hashes, 16);
  const std::vector<BlockId> hit(found.begin(), found.end());
  ASSERT_EQ(hit.size(), 2u);
  // Two hits leave the free list, so one block remains for new content.
  BlockTable second;
  EXPECT_FALSE(cache.has_room(second, {.num_tokens = 16, .prefix_hit = hit}));
  EXPECT_TRUE(cache.allocate(second, {.num_tokens = 12, .prefix_hit = hit}));
  EXPECT_EQ(cache.pool().num_free(), 0);
  EXPECT_EQ(second.num_indexed, 2);
}

TEST(KvCache, BlocksThatWillNotBeComputedStopBeingFindable) {
  KvCache cache({.num_blocks = 9, .block_size = 4});
  const auto hashes = hashes_from(0, 4);
  BlockTable table;
  ASSERT_TRUE(cache.allocate(table, {.num_tokens = 16, .hashes = hashes}));
  cache.release(table, 9);
  EXPECT_EQ(cache.find_prefix(hashes, 17).size(), 2u);
}

TEST(KvCache, ResetNeedsEveryBlockFree) {
  KvCache cache({.num_blocks = 4, .block_size = 4});
  const auto hashes = hashes_from(0, 1);
  BlockTable table;
  ASSERT_TRUE(cache.allocate(table, {.num_tokens = 4, .hashes = hashes}));
  EXPECT_FALSE(cache.reset_prefix_cache());
  cache.release(table, 4);
  EXPECT_EQ(cache.find_prefix(hashes, 5).size(), 1u);
  EXPECT_TRUE(cache.reset_prefix_cache());
  EXPECT_EQ(cache.find_prefix(hashes, 5).size(), 0u);
}

TEST(KvCache, NthAllocationCanBeMadeToFail) {
  KvCache cache({.num_blocks = 4, .block_size = 4});
  int n = 0;
  cache.set_allocation_fault([&] { return ++n == 2; });
  BlockTable table;
  EXPECT_TRUE(cache.allocate(table, {.num_tokens = 4}));
  EXPECT_FALSE(cache.allocate(table, {.num_tokens = 5}));
  EXPECT_TRUE(cache.allocate(table, {.num_tokens = 5}));
}

}  // namespace
}  // namespace octavo::engine
