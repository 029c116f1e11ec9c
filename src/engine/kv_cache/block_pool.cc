#include "engine/kv_cache/block_pool.h"

#include "base/check.h"

namespace octavo::engine {

BlockPool::BlockPool(int32_t num_blocks)
    : blocks_(static_cast<size_t>(num_blocks)), index_(num_blocks) {
  CHECK_GE(num_blocks, 1);
  // The null block is never free, so its links can hold the ends of the list.
  blocks_[kNullBlock].ref_count = 1;
  blocks_[kNullBlock].previous = blocks_[kNullBlock].next = kNullBlock;
  for (BlockId block = 1; block < num_blocks; ++block) {
    link_between(block, blocks_[kNullBlock].previous, kNullBlock);
  }
}

double BlockPool::usage() const {
  if (num_blocks() <= 1) return 0.0;
  return 1.0 - static_cast<double>(num_free_) / (num_blocks() - 1);
}

void BlockPool::unlink(BlockId block) {
  Block& b = blocks_[block];
  CHECK_NE(b.next, kNoBlock);
  blocks_[b.previous].next = b.next;
  blocks_[b.next].previous = b.previous;
  b.previous = b.next = kNoBlock;
  --num_free_;
}

void BlockPool::link_between(BlockId block, BlockId previous, BlockId next) {
  Block& b = blocks_[block];
  CHECK_EQ(b.next, kNoBlock);  // a block that is in the list already would be owned twice later
  b.previous = previous;
  b.next = next;
  blocks_[previous].next = block;
  blocks_[next].previous = block;
  ++num_free_;
}

void BlockPool::allocate(int32_t count, std::vector<BlockId>& out) {
  CHECK_LE(count, num_free_);
  for (int32_t i = 0; i < count; ++i) {
    const BlockId block = blocks_[kNullBlock].next;
    unlink(block);
    CHECK_EQ(blocks_[block].ref_count, 0);
    if (blocks_[block].hashed) clear_hash(block);
    blocks_[block].ref_count = 1;
    out.push_back(block);
  }
}

void BlockPool::touch(BlockId block) {
  if (blocks_[block].ref_count == 0) unlink(block);
  ++blocks_[block].ref_count;
}

void BlockPool::release(std::span<const BlockId> table) {
  // Unhashed blocks form a group at the front, in the order in which they come here.
  BlockId last_unhashed = kNullBlock;
  for (size_t i = table.size(); i-- > 0;) {
    const BlockId block = table[i];
    CHECK_NE(block, kNullBlock);
    CHECK_GT(blocks_[block].ref_count, 0);
    if (--blocks_[block].ref_count > 0) continue;
    if (blocks_[block].hashed) {
      link_between(block, blocks_[kNullBlock].previous, kNullBlock);
    } else {
      link_between(block, last_unhashed, blocks_[last_unhashed].next);
      last_unhashed = block;
    }
  }
}

void BlockPool::set_hash(BlockId block, const BlockHash& hash, KvGroupId group) {
  if (blocks_[block].hashed) return;
  blocks_[block].hashed = true;
  blocks_[block].hash = hash;
  blocks_[block].group = group;
  index_.insert(hash, block, group);
}

void BlockPool::clear_hash(BlockId block) {
  if (!blocks_[block].hashed) return;
  index_.erase(blocks_[block].hash, block, blocks_[block].group);
  blocks_[block].hashed = false;
}

void BlockPool::clear_hashes() {
  for (Block& block : blocks_) block.hashed = false;
  index_.clear();
}

std::vector<BlockId> BlockPool::free_list() const {
  std::vector<BlockId> out;
  for (BlockId block = blocks_[kNullBlock].next; block != kNullBlock; block = blocks_[block].next) {
    out.push_back(block);
  }
  return out;
}

}  // namespace octavo::engine
