#pragma once

#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "engine/message.h"

namespace octavo::engine {

/// Number of a KV block: row of the pool that the model's KV buffers are divided into.
using BlockId = int32_t;
inline constexpr BlockId kNoBlock = -1;
/// Never allocatable; what padding may point at.
inline constexpr BlockId kNullBlock = 0;

/// Block hash -> block. Identical blocks computed twice stay apart; a lookup returns the copy that
/// was inserted first among those still present. All operations O(1).
class PrefixIndex {
 public:
  explicit PrefixIndex(int32_t num_blocks) : links_(static_cast<size_t>(num_blocks)) {}

  BlockId find(const BlockHash& hash) const;
  void insert(const BlockHash& hash, BlockId block);
  void erase(const BlockHash& hash, BlockId block);
  void clear();
  /// Distinct hashes held.
  size_t size() const { return first_.size(); }

 private:
  struct HashOfHash {
    size_t operator()(const BlockHash& hash) const {
      size_t value;
      std::memcpy(&value, hash.data(), sizeof value);  // a digest: any 8 bytes are well mixed
      return value;
    }
  };
  /// Copies of one hash form a circle in order of insertion; `first_` names its start.
  struct Link {
    BlockId previous = kNoBlock;
    BlockId next = kNoBlock;
  };
  std::unordered_map<BlockHash, BlockId, HashOfHash> first_;
  std::vector<Link> links_;
};

}  // namespace octavo::engine
