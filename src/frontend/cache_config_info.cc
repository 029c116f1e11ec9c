#include "frontend/cache_config_info.h"

#include <fmt/format.h>

#include <optional>

namespace octavo::frontend {
namespace {

std::string python(bool value) { return value ? "True" : "False"; }
std::string python(std::optional<int64_t> value) {
  return value ? fmt::format("{}", *value) : "None";
}
std::string python(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> cache_config_info(const config::CacheConfig& cache,
                                                                   const engine::EngineInfo& info) {
  const std::string block_size = fmt::format("{}", info.block_size);
  return {
      {"_block_size_resolved", python(true)},
      {"block_size", block_size},
      {"cache_dtype", cache.kv_cache_dtype},
      {"enable_mamba_fine_grained_prefix_cache", python(false)},
      {"enable_prefix_caching", python(info.enable_prefix_caching)},
      {"gpu_memory_utilization", python(cache.gpu_memory_utilization)},
      {"is_attention_free", python(false)},
      {"kv_cache_dtype_skip_layers", "[]"},
      {"kv_cache_layout", "None"},
      {"kv_cache_max_concurrency", python(info.kv_cache_max_concurrency)},
      {"kv_cache_memory_bytes", python(cache.kv_cache_memory_bytes)},
      {"kv_cache_size_tokens", fmt::format("{}", info.kv_cache_size_tokens)},
      {"kv_offloading_backend", "native"},
      {"kv_offloading_size", "None"},
      {"kv_sharing_fast_prefill", python(false)},
      {"mamba_block_size", "None"},
      {"mamba_cache_dtype", "auto"},
      {"mamba_cache_mode", "none"},
      {"mamba_page_size_padded", "None"},
      {"mamba_ssm_cache_dtype", "auto"},
      {"num_cpu_blocks", "None"},
      {"num_gpu_blocks", fmt::format("{}", info.num_blocks)},
      {"num_gpu_blocks_override", python(cache.num_gpu_blocks_override)},
      {"prefix_cache_retention_interval", "0"},
      {"prefix_caching_hash_algo", cache.prefix_caching_hash_algo},
      {"prefix_match_unit", "None"},
      {"replayssm_buffer_len", "16"},
      {"skip_page_size_padded", "None"},
      {"sliding_window", "None"},
      {"use_kda_recoverssm", python(false)},
      {"use_replayssm", python(false)},
      {"user_specified_block_size", python(cache.user_specified_block_size)},
      {"user_specified_mamba_block_size", python(false)},
  };
}

}  // namespace octavo::frontend
