#include "engine/kv_cache/prefix_index.h"

#include "base/check.h"

namespace octavo::engine {

BlockId PrefixIndex::find(const BlockHash& hash, KvGroupId group) const {
  const auto it = first_.find({hash, group});
  return it == first_.end() ? kNoBlock : it->second;
}

void PrefixIndex::insert(const BlockHash& hash, BlockId block, KvGroupId group) {
  CHECK_EQ(links_[block].next, kNoBlock);
  const auto [it, is_new] = first_.try_emplace(Key{hash, group}, block);
  if (is_new) {
    links_[block] = {block, block};
    return;
  }
  const BlockId first = it->second;
  const BlockId last = links_[first].previous;
  links_[block] = {last, first};
  links_[last].next = block;
  links_[first].previous = block;
}

void PrefixIndex::erase(const BlockHash& hash, BlockId block, KvGroupId group) {
  const auto it = first_.find({hash, group});
  CHECK(it != first_.end());
  const Link link = links_[block];
  CHECK_NE(link.next, kNoBlock);
  links_[block] = {};
  if (link.next == block) {
    first_.erase(it);
    return;
  }
  links_[link.previous].next = link.next;
  links_[link.next].previous = link.previous;
  if (it->second == block) it->second = link.next;
}

void PrefixIndex::clear() {
  first_.clear();
  for (Link& link : links_) link = {};
}

}  // namespace octavo::engine
