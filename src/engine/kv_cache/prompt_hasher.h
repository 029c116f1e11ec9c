#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/kv_cache/block_hash.h"

namespace octavo::engine {

/// Hashes the full blocks of prompts, and those of the last prompt once only: the n samples of a
/// request bring the same prompt one after the other. Safe from any thread.
class PromptHasher {
 public:
  PromptHasher(const BlockHasher& hasher, int64_t block_size)
      : hasher_(hasher), block_size_(block_size) {}

  using Hashes = std::shared_ptr<const std::vector<BlockHash>>;
  Hashes hash(std::span<const TokenId> prompt, std::string_view cache_salt);

 private:
  struct Last {
    std::vector<TokenId> prompt;
    std::string cache_salt;
    Hashes hashes;
  };
  const BlockHasher& hasher_;
  int64_t block_size_;
  std::mutex mutex_;
  std::shared_ptr<const Last> last_;
};

}  // namespace octavo::engine
