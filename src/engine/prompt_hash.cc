#include "engine/prompt_hash.h"

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "engine/kv_cache/block_hash.h"

namespace octavo::engine {

Result<PromptHasher> make_prompt_hasher(const config::CacheConfig& config) {
  OCTAVO_TRY(const HashAlgorithm algorithm, parse_hash_algorithm(config.prefix_caching_hash_algo));
  const char* seed = std::getenv("PYTHONHASHSEED");
  const bool is_xxhash =
      algorithm == HashAlgorithm::kXxhash || algorithm == HashAlgorithm::kXxhashCbor;
  if (is_xxhash && seed == nullptr) return PromptHasher();
  const auto hasher = std::make_shared<const BlockHasher>(
      algorithm, seed != nullptr ? std::optional<std::string>(seed) : std::nullopt);
  return PromptHasher([hasher, block_size = config.block_size](std::span<const TokenId> prompt,
                                                               std::string_view cache_salt) {
    std::vector<BlockHash> hashes;
    hasher->extend(hashes, prompt, block_size, cache_salt);
    return hashes;
  });
}

}  // namespace octavo::engine
