#include "engine/kv_cache/prompt_hasher.h"

#include <algorithm>
#include <utility>

namespace octavo::engine {

PromptHasher::Hashes PromptHasher::hash(std::span<const TokenId> prompt,
                                        std::string_view cache_salt) {
  std::shared_ptr<const Last> last;
  {
    const std::lock_guard lock(mutex_);
    last = last_;
  }
  if (last && last->cache_salt == cache_salt && std::ranges::equal(last->prompt, prompt)) {
    return last->hashes;
  }
  // Neither hashing nor comparing holds the lock: prompts may be long.
  std::vector<BlockHash> hashes;
  hasher_.extend(hashes, prompt, block_size_, cache_salt);
  auto now = std::make_shared<Last>();
  now->prompt.assign(prompt.begin(), prompt.end());
  now->cache_salt = cache_salt;
  now->hashes = std::make_shared<const std::vector<BlockHash>>(std::move(hashes));
  const std::lock_guard lock(mutex_);
  last_ = now;
  return now->hashes;
}

}  // namespace octavo::engine
