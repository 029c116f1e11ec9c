#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "engine/engine.h"

namespace octavo::frontend {

/// Labels of vllm:cache_config_info, alphabetical, without
/// "engine"; values in the form of Python's str().
std::vector<std::pair<std::string, std::string>> cache_config_info(const config::CacheConfig& cache,
                                                                   const engine::EngineInfo& info);

}  // namespace octavo::frontend
