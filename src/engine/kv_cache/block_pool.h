#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv_cache/prefix_index.h"

namespace octavo::engine {

/// Counts KV blocks: who is free, how often each is used, what each holds. Never touches their
/// bytes. The order of the free list is the eviction order:
/// allocation takes from the front; freed blocks that carry a hash go to the back, others to the
/// front. Not thread-safe.
class BlockPool {
 public:
  /// `num_blocks` >= 1; block 0 is the null block.
  explicit BlockPool(int32_t num_blocks);

  int32_t num_blocks() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t num_free() const { return num_free_; }
  /// 1 - free / (num_blocks - 1); 0 for a pool that has only the null block.
  double usage() const;
  int32_t ref_count(BlockId block) const { return blocks_[block].ref_count; }
  const BlockHash& hash(BlockId block) const { return blocks_[block].hash; }

  /// Takes `count` blocks from the front of the free list and appends them to `out`. The caller has
  /// checked `num_free()`.
  void allocate(int32_t count, std::vector<BlockId>& out);
  /// One more user of a cached block; takes it out of the free list if it had none.
  void touch(BlockId block);
  /// Drops one use of every block of a sequence's table (given head first; processed tail first).
  void release(std::span<const BlockId> table);

  /// The copy of a block with this content in this KV group that was inserted first, or kNoBlock.
  BlockId find(const BlockHash& hash, KvGroupId group = 0) const {
    return index_.find(hash, group);
  }
  /// Makes a block findable. No effect if it has a hash already.
  void set_hash(BlockId block, const BlockHash& hash, KvGroupId group = 0);
  void clear_hash(BlockId block);
  /// Forgets all hashes; the free list keeps its order.
  void clear_hashes();

  /// The free list, front first; for tests and invariants.
  std::vector<BlockId> free_list() const;

 private:
  struct Block {
    int32_t ref_count = 0;
    BlockId previous = kNoBlock;  // free-list links; block 0 is the sentinel of the circle
    BlockId next = kNoBlock;
    bool hashed = false;
    KvGroupId group = 0;  // of the hash
    BlockHash hash{};
  };
  void unlink(BlockId block);
  void link_between(BlockId block, BlockId previous, BlockId next);

  std::vector<Block> blocks_;
  PrefixIndex index_;
  int32_t num_free_ = 0;
};

}  // namespace octavo::engine
