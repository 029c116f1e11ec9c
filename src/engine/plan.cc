#include "engine/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/log.h"
#include "engine/fault.h"
#include "engine/kv_cache/block_hash.h"
#include "engine/scheduler/waiting_queue.h"
#include "kernels/attention/attention.h"

namespace octavo::engine {
namespace {

// Chosen by measurement for few cores; vLLM's CPU default is 2,048.
constexpr int64_t kDefaultMaxNumBatchedTokens = 512;
constexpr int64_t kDefaultMaxNumSeqs = 128;
constexpr size_t kDefaultKvCeilingBytes = size_t{4} << 30;
// Larger blocks would pickle to more than one frame, and nothing gains from them.
constexpr int64_t kMaxBlockSize = 8192;
// Everything is counted in int32 below this room.
constexpr int64_t kMaxLimit = int64_t{1} << 30;

Error invalid(std::string message) { return Error{Code::kInvalidArgument, std::move(message)}; }

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

Status check_range(const char* flag, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return {};
  return invalid(fmt::format("{} is {}; allowed are {} to {}", flag, value, low, high));
}

Result<int64_t> wanted_max_model_len(const config::EngineConfig& config, const PlanInputs& in) {
  const int64_t limit = std::min(in.model_max_model_len, kMaxLimit);
  const int64_t asked = config.model.max_model_len.value_or(limit);
  if (asked == -1) return limit;
  OCTAVO_TRY(check_range("--max-model-len", asked, 1, kMaxLimit));
  if (asked > limit && !config.model.allow_long_max_model_len) {
    return invalid(fmt::format(
        "User-specified max_model_len ({}) is greater than the derived max_model_len ({}); "
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 permits it, at the risk of wrong output",
        asked, limit));
  }
  return asked;
}

/// Sets max_num_batched_tokens and max_num_seqs for a context length.
Status resolve_limits(const config::SchedulerConfig& config, EngineInfo& info) {
  const int64_t factor = config.performance_mode == "throughput" ? 2 : 1;
  info.enable_chunked_prefill = config.enable_chunked_prefill.value_or(true);
  int64_t tokens = config.max_num_batched_tokens.value_or(kDefaultMaxNumBatchedTokens * factor);
  int64_t seqs = config.max_num_seqs.value_or(kDefaultMaxNumSeqs * factor);
  OCTAVO_TRY(check_range("--max-num-batched-tokens", tokens, 1, kMaxLimit));
  OCTAVO_TRY(check_range("--max-num-seqs", seqs, 1, int64_t{1} << 20));
  if (!config.max_num_batched_tokens) {
    if (!info.enable_chunked_prefill) tokens = std::max(tokens, info.max_model_len);
    tokens = std::min(tokens, seqs * info.max_model_len);
  }
  if (!config.max_num_seqs) seqs = std::min(seqs, tokens);
  if (!info.enable_chunked_prefill && tokens < info.max_model_len) {
    return invalid(fmt::format(
        "max_num_batched_tokens ({}) is smaller than max_model_len ({}) while chunked prefill is "
        "off: longer prompts could never run. Raise --max-num-batched-tokens, lower "
        "--max-model-len, or leave chunked prefill on",
        tokens, info.max_model_len));
  }
  if (tokens < seqs) {
    return invalid(fmt::format(
        "max_num_batched_tokens ({}) must be greater than or equal to max_num_seqs ({})", tokens,
        seqs));
  }
  if (const auto& scheduled = config.max_num_scheduled_tokens) {
    OCTAVO_TRY(check_range("--max-num-scheduled-tokens", *scheduled, 1, tokens));
    if (!info.enable_chunked_prefill && *scheduled < info.max_model_len) {
      return invalid(fmt::format(
          "--max-num-scheduled-tokens ({}) is smaller than max_model_len ({}) while chunked "
          "prefill is off: a longer request could not resume after a preemption. Raise it, lower "
          "--max-model-len, or leave chunked prefill on",
          *scheduled, info.max_model_len));
    }
  }
  OCTAVO_TRY(check_range("--long-prefill-token-threshold", config.long_prefill_token_threshold, 0,
                         info.max_model_len));
  info.max_num_batched_tokens = tokens;
  info.max_num_seqs = seqs;
  return {};
}

Error no_memory_for_blocks(size_t used, size_t ceiling) {
  return Error{Code::kOverloaded,
               fmt::format("No available memory for the cache blocks. Weights and activations take "
                           "{} GiB of the {} GiB that may be used; raise --gpu-memory-utilization "
                           "or give --kv-cache-memory-bytes",
                           format_gib(used), format_gib(ceiling))};
}

/// A KV cache whose size was given outright takes its bytes beside the activations.
Status check_available(const char* flag, size_t kv_bytes, const EngineInfo& info,
                       size_t available) {
  if (kv_bytes <= available && info.activation_bytes <= available - kv_bytes) return {};
  return Error{Code::kOverloaded,
               fmt::format("{} asks for {} GiB and activations take {} GiB, but only {} GiB of "
                           "memory are available; ask for less, or lower --max-num-seqs or "
                           "--max-num-batched-tokens",
                           flag, format_gib(kv_bytes), format_gib(info.activation_bytes),
                           format_gib(available))};
}

Result<size_t> kv_budget(const config::CacheConfig& cache, const PlanInputs& in,
                         const EngineInfo& info) {
  const size_t available = in.available_memory_bytes;
  if (cache.kv_cache_memory_bytes) {
    const auto bytes = static_cast<size_t>(*cache.kv_cache_memory_bytes);
    OCTAVO_TRY(check_available("--kv-cache-memory-bytes", bytes, info, available));
    return bytes;
  }
  const auto ceiling = static_cast<size_t>(
      std::ceil(static_cast<double>(in.memory_limit_bytes) * cache.gpu_memory_utilization));
  const size_t used = info.weight_bytes + info.activation_bytes;
  if (used >= ceiling) return no_memory_for_blocks(used, ceiling);
  const size_t rest = ceiling - used;
  if (cache.user_specified_gpu_memory_utilization) {
    if (rest + info.activation_bytes > available) {
      return Error{
          Code::kOverloaded,
          fmt::format("Available memory ({} GiB of {} GiB) is less than desired CPU memory "
                      "utilization ({}, which needs {} GiB more); lower --gpu-memory-utilization",
                      format_gib(available), format_gib(in.memory_limit_bytes),
                      cache.gpu_memory_utilization, format_gib(rest + info.activation_bytes))};
    }
    return rest;
  }
  const auto useful_blocks = info.max_num_seqs * ceil_div(info.max_model_len, info.block_size) + 1;
  const double useful = static_cast<double>(useful_blocks) * in.kv_block_bytes;
  size_t bytes = std::min(rest, kDefaultKvCeilingBytes);
  if (useful < static_cast<double>(bytes)) {
    bytes = static_cast<size_t>(useful_blocks) * in.kv_block_bytes;
  }
  if (info.activation_bytes >= available) return no_memory_for_blocks(used, ceiling);
  return std::min(bytes, available - info.activation_bytes);
}

/// Makes one request of max_model_len fit, by lowering it (`auto`) or refusing.
Status fit_max_model_len(const config::EngineConfig& config, const PlanInputs& in,
                         EngineInfo& info) {
  const int64_t usable = std::max<int64_t>(0, info.num_blocks - 1);  // the null block holds nothing
  const int64_t longest = usable * info.block_size;
  if (info.max_model_len <= longest) return {};
  const bool is_auto = config.model.max_model_len == -1;
  if (is_auto && longest >= 1) {
    info.max_model_len = longest;
    return resolve_limits(config.scheduler, info);
  }
  if (is_auto) {
    return Error{Code::kOverloaded,
                 fmt::format("Cannot auto-fit max_model_len: the KV cache ({} GiB) does not hold "
                             "one block beside the null block",
                             format_gib(info.kv_cache_bytes))};
  }
  const auto needed =
      static_cast<size_t>(ceil_div(info.max_model_len, info.block_size)) * in.kv_block_bytes;
  return Error{
      Code::kOverloaded,
      fmt::format("To serve at least one request with the model's max seq len ({}), ({} GiB KV "
                  "cache is needed, which is larger than the available KV cache memory ({} GiB). "
                  "Based on the available memory, the estimated maximum model length is {}. Raise "
                  "--kv-cache-memory-bytes or --gpu-memory-utilization, or lower --max-model-len",
                  info.max_model_len, format_gib(needed),
                  format_gib(static_cast<size_t>(usable) * in.kv_block_bytes), longest)};
}

}  // namespace

Status check_options(const config::EngineConfig& config) {
  OCTAVO_TRY(
      check_range("--block-size", config.cache.block_size, kernels::kPageTokens, kMaxBlockSize));
  if (config.cache.block_size % kernels::kPageTokens != 0) {
    return invalid(fmt::format("--block-size is {}; it must be a multiple of {}",
                               config.cache.block_size, kernels::kPageTokens));
  }
  OCTAVO_TRY(FaultHook::check(config.fault));
  const double utilization = config.cache.gpu_memory_utilization;
  if (!(utilization > 0.0 && utilization <= 1.0)) {
    return invalid(fmt::format("--gpu-memory-utilization is {}; it must be above 0 and at most 1",
                               utilization));
  }
  const double watermark = config.scheduler.watermark;
  if (!(watermark >= 0.0 && watermark < 1.0)) {
    return invalid(fmt::format("--watermark is {}; it must be at least 0 and below 1", watermark));
  }
  if (const auto& bytes = config.cache.kv_cache_memory_bytes) {
    OCTAVO_TRY(
        check_range("--kv-cache-memory-bytes", *bytes, 1, std::numeric_limits<int64_t>::max()));
  }
  if (const auto& blocks = config.cache.num_gpu_blocks_override) {
    OCTAVO_TRY(check_range("--num-gpu-blocks-override", *blocks, 2, kMaxLimit));
  }
  if (auto hash = parse_hash_algorithm(config.cache.prefix_caching_hash_algo); !hash) {
    return std::move(hash).error();
  }
  auto policy = make_scheduling_policy(config.scheduler.scheduling_policy);
  if (!policy) return std::move(policy).error();
  return {};
}

Result<EngineInfo> plan_engine(const config::EngineConfig& config, const PlanInputs& inputs) {
  OCTAVO_TRY(check_options(config));
  EngineInfo info;
  info.block_size = config.cache.block_size;
  info.enable_prefix_caching = config.cache.enable_prefix_caching.value_or(true);
  info.prefix_caching_hash_algo = config.cache.prefix_caching_hash_algo;
  info.vocab_size = inputs.vocab_size;
  info.weight_bytes = inputs.weight_bytes;
  OCTAVO_TRY(info.max_model_len, wanted_max_model_len(config, inputs));
  OCTAVO_TRY(resolve_limits(config.scheduler, info));
  info.activation_bytes =
      inputs.activation_bytes(info.max_num_batched_tokens, info.max_num_seqs, info.max_model_len);
  OCTAVO_TRY(const size_t budget, kv_budget(config.cache, inputs, info));
  info.num_blocks =
      std::min<int64_t>(static_cast<int64_t>(budget / inputs.kv_block_bytes), kMaxLimit);
  if (config.cache.num_gpu_blocks_override) {
    log::info(log::Source::kEngineCore,
              "Overriding num_gpu_blocks={} with num_gpu_blocks_override={}", info.num_blocks,
              *config.cache.num_gpu_blocks_override);
    info.num_blocks = *config.cache.num_gpu_blocks_override;
  }
  info.kv_cache_bytes = static_cast<size_t>(info.num_blocks) * inputs.kv_block_bytes;
  if (config.cache.num_gpu_blocks_override) {
    OCTAVO_TRY(check_available("--num-gpu-blocks-override", info.kv_cache_bytes, info,
                               inputs.available_memory_bytes));
  }
  OCTAVO_TRY(fit_max_model_len(config, inputs, info));
  fill_capacity(info);
  return info;
}

void fill_capacity(EngineInfo& info) {
  if (info.max_model_len < 1 || info.block_size < 1) return;
  const int64_t blocks_per_request = ceil_div(info.max_model_len, info.block_size);
  info.kv_cache_max_concurrency =
      static_cast<double>(info.num_blocks) / static_cast<double>(blocks_per_request);
  info.kv_cache_size_tokens =
      static_cast<int64_t>(info.kv_cache_max_concurrency * static_cast<double>(info.max_model_len));
}

void log_plan(const config::EngineConfig& config, const PlanInputs& inputs,
              const EngineInfo& info) {
  constexpr auto kCore = log::Source::kEngineCore;
  if (config.model.max_model_len == -1) {
    if (info.max_model_len == inputs.model_max_model_len) {
      log::info(kCore,
                "Auto-fit max_model_len: full model context length {} fits in available memory",
                info.max_model_len);
    } else {
      log::info(kCore, "Auto-fit max_model_len: reduced from {} to {} to fit in available memory",
                inputs.model_max_model_len, info.max_model_len);
    }
  }
  log::info(kCore, "Using max model len {}", info.max_model_len);
  if (info.enable_chunked_prefill) {
    log::info(kCore, "Chunked prefill is enabled with max_num_batched_tokens={}.",
              info.max_num_batched_tokens);
  }
  if (info.max_num_batched_tokens > info.max_num_seqs * info.max_model_len) {
    log::warning(kCore,
                 "max_num_batched_tokens ({}) exceeds max_num_seqs * max_model_len ({}): the rest "
                 "can never be used",
                 info.max_num_batched_tokens, info.max_num_seqs * info.max_model_len);
  }
  log::info(kCore,
            "Memory plan: weights {} GiB, KV cache {} GiB ({} blocks of {} tokens), activations {} "
            "GiB; this process may use {} GiB. --kv-cache-memory-bytes raises the KV cache",
            format_gib(info.weight_bytes), format_gib(info.kv_cache_bytes), info.num_blocks,
            info.block_size, format_gib(info.activation_bytes),
            format_gib(inputs.memory_limit_bytes));
  log::info(kCore,
            "CPU KV cache size: {} tokens, Maximum concurrency for {} tokens per request: {:.2f}x",
            format_thousands(info.kv_cache_size_tokens), format_thousands(info.max_model_len),
            info.kv_cache_max_concurrency);
}

std::string format_gib(size_t bytes) {
  std::string text = fmt::format("{:.2f}", static_cast<double>(bytes) / (size_t{1} << 30));
  if (text.back() == '0') text.pop_back();
  return text;
}

std::string format_thousands(int64_t value) {
  const std::string digits = fmt::format("{}", value);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    const size_t rest = digits.size() - i;
    if (i > 0 && rest % 3 == 0 && digits[i - 1] != '-') text.push_back(',');
    text.push_back(digits[i]);
  }
  return text;
}

}  // namespace octavo::engine
