#pragma once

#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "engine/message.h"

namespace octavo::engine {

/// Number of a KV block: row of the pool that the model's KV buffers are divided into.
using BlockId = int32_t;
/// Layers that keep their KV by the same block tables form a group; one group now. The blocks of
/// all groups come from one pool, and equal tokens make different content in each.
using KvGroupId = int32_t;
inline constexpr BlockId kNoBlock = -1;
/// Never allocatable; what padding may point at.
inline constexpr BlockId kNullBlock = 0;

/// Block hash and KV group -> block. Identical blocks computed twice stay apart; a lookup returns
/// the copy that was inserted first among those still present. All operations O(1).
class PrefixIndex {
 public:
  explicit PrefixIndex(int32_t num_blocks) : links_(static_cast<size_t>(num_blocks)) {}

  BlockId find(const BlockHash& hash, KvGroupId group = 0) const;
  void insert(const BlockHash& hash, BlockId block, KvGroupId group = 0);
  void erase(const BlockHash& hash, BlockId block, KvGroupId group = 0);
  void clear();
  /// Distinct hashes held, of each group.
  size_t size() const { return first_.size(); }

 private:
  struct Key {
    BlockHash hash;
    KvGroupId group = 0;
    bool operator==(const Key&) const = default;
  };
  struct HashOfKey {
    size_t operator()(const Key& key) const {
      size_t value;
      // A digest: any 8 bytes are well mixed.
      std::memcpy(&value, key.hash.data(), sizeof value);
      return value + static_cast<size_t>(key.group);
    }
  };
  /// Copies of one hash form a circle in order of insertion; `first_` names its start.
  struct Link {
    BlockId previous = kNoBlock;
    BlockId next = kNoBlock;
  };
  std::unordered_map<Key, BlockId, HashOfKey> first_;
  std::vector<Link> links_;
};

}  // namespace octavo::engine
