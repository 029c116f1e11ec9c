#include "engine/kv_cache/kv_cache.h"

#include <algorithm>

#include "base/check.h"

namespace octavo::engine {

KvCache::KvCache(const Options& options) : options_(options), pool_(options.num_blocks) {
  CHECK_GE(options.block_size, 1);
}

std::span<const BlockId> KvCache::find_prefix(std::span<const BlockHash> hashes, int32_t num_tokens,
                                              KvGroupId group) {
  found_.clear();
  if (!options_.enable_prefix_caching || num_tokens <= 1) return found_;
  const size_t limit = std::min<size_t>(hashes.size(), (num_tokens - 1) / options_.block_size);
  for (size_t i = 0; i < limit; ++i) {
    const BlockId block = pool_.find(hashes[i], group);
    if (block == kNoBlock) break;
    found_.push_back(block);
  }
  return found_;
}

int64_t KvCache::num_new_blocks(const BlockTable& table, const SlotRequest& request) const {
  const int64_t owned = static_cast<int64_t>(table.blocks.size() + request.prefix_hit.size());
  return std::max<int64_t>(0, num_blocks_for(request.num_tokens) - owned);
}

bool KvCache::has_room(const BlockTable& table, const SlotRequest& request) const {
  // Hit blocks without a user leave the free list too.
  const auto is_free = [&](BlockId block) { return pool_.ref_count(block) == 0; };
  const int64_t num_free_hits =
      std::count_if(request.prefix_hit.begin(), request.prefix_hit.end(), is_free);
  return num_new_blocks(table, request) + num_free_hits + request.num_reserved_blocks <=
         pool_.num_free();
}

bool KvCache::allocate(BlockTable& table, const SlotRequest& request) {
  if (allocation_fault_ && allocation_fault_()) return false;
  if (!has_room(table, request)) return false;
  const int32_t num_new = static_cast<int32_t>(num_new_blocks(table, request));
  for (const BlockId block : request.prefix_hit) pool_.touch(block);
  table.blocks.insert(table.blocks.end(), request.prefix_hit.begin(), request.prefix_hit.end());
  table.num_indexed += static_cast<int32_t>(request.prefix_hit.size());
  pool_.allocate(num_new, table.blocks);
  if (options_.enable_prefix_caching) {
    const int32_t num_full = std::min<int32_t>(request.num_tokens / options_.block_size,
                                               static_cast<int32_t>(request.hashes.size()));
    for (; table.num_indexed < num_full; ++table.num_indexed) {
      pool_.set_hash(table.blocks[table.num_indexed], request.hashes[table.num_indexed],
                     table.group);
    }
  }
  return true;
}

void KvCache::release(BlockTable& table, int32_t num_valid_tokens) {
  for (int32_t i = num_valid_tokens / options_.block_size; i < table.num_indexed; ++i) {
    pool_.clear_hash(table.blocks[i]);
  }
  pool_.release(table.blocks);
  table.blocks.clear();
  table.num_indexed = 0;
}

bool KvCache::reset_prefix_cache() {
  if (pool_.num_free() != num_usable_blocks()) return false;
  pool_.clear_hashes();
  return true;
}

}  // namespace octavo::engine
