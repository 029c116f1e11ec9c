#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/kv_cache/block_pool.h"

namespace octavo::engine {

/// The blocks of one sequence in one KV group, in order of position. Grows while the sequence runs;
/// never changes an entry. A second group is a second table, with its own index.
struct BlockTable {
  KvGroupId group = 0;
  std::vector<BlockId> blocks = {};
  /// Leading blocks that are in the prefix index (found there or inserted by this sequence).
  int32_t num_indexed = 0;
};

/// A wish for slots: KV of the first `num_tokens` tokens of a sequence.
struct SlotRequest {
  int32_t num_tokens = 0;                    // with KV after the step
  std::span<const BlockId> prefix_hit = {};  // found blocks that the table does not hold yet
  std::span<const BlockHash> hashes = {};    // of the sequence's full blocks known so far
  int32_t num_reserved_blocks = 0;           // must stay free afterwards (the watermark)
};

/// Gives KV blocks to sequences: prefix lookups, all-or-nothing allocation, release in eviction
/// order. Identity of a block's bytes beyond its hash (weights, dtype, layout) matters only outside
/// one process: `model::BlockIdentity`.
class KvCache {
 public:
  struct Options {
    int32_t num_blocks = 1;  // the null block included
    int32_t block_size = 16;
    bool enable_prefix_caching = true;
  };
  explicit KvCache(const Options& options);

  const BlockPool& pool() const { return pool_; }
  int32_t block_size() const { return options_.block_size; }
  bool enable_prefix_caching() const { return options_.enable_prefix_caching; }
  int32_t num_usable_blocks() const { return pool_.num_blocks() - 1; }
  int32_t num_blocks_for(int32_t num_tokens) const {
    return (num_tokens + options_.block_size - 1) / options_.block_size;
  }

  /// Longest run of cached full blocks from the start, over at most num_tokens - 1 tokens (the last
  /// one must be computed for its logits). Valid until the next call. Changes nothing.
  std::span<const BlockId> find_prefix(std::span<const BlockHash> hashes, int32_t num_tokens,
                                       KvGroupId group = 0);

  /// Whether `allocate` would succeed. Reserves nothing.
  bool has_room(const BlockTable& table, const SlotRequest& request) const;

  /// Appends hit and new blocks to the table and makes its full blocks findable at once, so that
  /// another sequence of the same step can share them. False, and nothing changed, without room.
  bool allocate(BlockTable& table, const SlotRequest& request);

  /// Gives all blocks back. Blocks beyond `num_valid_tokens` were promised by an allocation of this
  /// step that will not be computed after all: they stop being findable.
  void release(BlockTable& table, int32_t num_valid_tokens);

  /// Forgets all cached content. False unless every block but the null block is free.
  bool reset_prefix_cache();

  /// For fault injection: asked before each allocation; true makes it fail as if there was no room.
  void set_allocation_fault(std::function<bool()> fault) { allocation_fault_ = std::move(fault); }

 private:
  int64_t num_new_blocks(const BlockTable& table, const SlotRequest& request) const;

  Options options_;
  BlockPool pool_;
  std::vector<BlockId> found_;
  std::function<bool()> allocation_fault_;
};

}  // namespace octavo::engine
