#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "engine/message.h"

namespace octavo::engine {

/// Hashes of the full blocks of a prompt; safe from any thread.
using PromptHasher = std::function<std::vector<BlockHash>(std::span<const TokenId> prompt,
                                                          std::string_view cache_salt)>;

/// A hasher that agrees with an engine of the same config, so that what grows with a prompt is done
/// before the request enters. Empty for the xxhash pair without PYTHONHASHSEED: its seed is random
/// and the engine's own. Error: unknown algorithm.
Result<PromptHasher> make_prompt_hasher(const config::CacheConfig& config);

}  // namespace octavo::engine
