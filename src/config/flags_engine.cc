#include "config/flags.h"

namespace octavo::config {
namespace {

std::optional<int64_t> optional_integer(const Value& v) {
  return v.is_unset ? std::nullopt : std::optional(v.integer);
}

// What the engine does with a request: model, weights, cache, scheduler.
constexpr auto
    kEngineFlags =
        std::to_array<Flag>(
            {
                built("model", Kind::kString, "unset", Group::kModel, 'A',
                      "Directory or .gguf file. Better given as the positional argument; without "
                      "either, the "
                      "default model is served.",
                      [](Config& c, const Value& v) { c.engine.model.model = v.text; }),
                built("tokenizer", Kind::kString, "unset", Group::kModel, 'A',
                      "Directory or .gguf file of the tokenizer, if not the model's own.",
                      [](Config& c, const Value& v) { c.engine.model.tokenizer = v.text; }),
                built(
                    "served-model-name", Kind::kList, "unset", Group::kModel, 'A',
                    "Names the API answers to; the first is reported. Default: the model argument.",
                    [](Config& c, const Value& v) { c.engine.model.served_model_name = v.list; }),
                built("dtype", Kind::kEnum, "auto", Group::kModel, 'A',
                      "Type of activations and KV cache. auto keeps the checkpoint's; float32 "
                      "computes "
                      "everything in float32.",
                      [](Config& c, const Value& v) { c.engine.model.dtype = v.text; },
                      {.choices = "auto half float16 bfloat16 float float32"}),
                built("quantization", Kind::kString, "unset", Group::kModel, 'A',
                      "Method of quantised weights. A quantised checkpoint names its own (awq, "
                      "compressed-tensors, fp8, gptq, gguf), with which the flag must agree; one "
                      "in BF16, F16 or F32 is packed when it is loaded: int8, q4 (4 bits, the head "
                      "8) or fp8 (e4m3, one scale a row).",
                      [](Config& c, const Value& v) { c.engine.model.quantization = v.text; },
                      {.short_name = "q"}),
                built("seed", Kind::kInt, "0", Group::kModel, 'A',
                      "Seed of requests that bring none.",
                      [](Config& c, const Value& v) {
                        c.engine.model.seed = v.integer;
                        c.engine.model.user_specified_seed = true;
                      }),
                built("max-model-len", Kind::kLength, "unset", Group::kModel, 'A',
                      "Longest prompt plus output, in tokens: 4096, 8k, 8K. Unset: what the model "
                      "was made "
                      "for; -1 or auto: the largest that fits the KV cache.",
                      [](Config& c, const Value& v) {
                        c.engine.model.max_model_len = optional_integer(v);
                      },
                      {.bounds = ">=-1"}),
                built("max-logprobs", Kind::kInt, "20", Group::kModel, 'A',
                      "Most logprobs per token a request may ask for; -1: the vocabulary.",
                      [](Config& c, const Value& v) { c.engine.model.max_logprobs = v.integer; },
                      {.bounds = ">=-1"}),
                built("logprobs-mode", Kind::kEnum, "raw_logprobs", Group::kModel, 'B',
                      "What logprobs hold: of the model's logits (raw) or of those a token was "
                      "chosen from (processed).",
                      [](Config& c, const Value& v) { c.engine.model.logprobs_mode = v.text; },
                      {.choices = "raw_logits raw_logprobs processed_logits processed_logprobs"}),
                built("generation-config", Kind::kString, "auto", Group::kModel, 'A',
                      "Where default sampling parameters come from: auto (the model), vllm "
                      "(nowhere), or a "
                      "folder with generation_config.json.",
                      [](Config& c, const Value& v) { c.engine.model.generation_config = v.text; }),
                built("override-generation-config", Kind::kJson, "{}", Group::kModel, 'A',
                      "Default sampling parameters over those of --generation-config; "
                      "max_new_tokens caps "
                      "every request.",
                      [](Config& c, const Value& v) {
                        c.engine.model.override_generation_config = v.text;
                      }),
                built("load-format", Kind::kEnum, "auto", Group::kLoad, 'A',
                      "Form of the weights; dummy: random weights, for tests of speed.",
                      [](Config& c, const Value& v) {
                        c.engine.model.load_format = v.text == "hf" ? "safetensors" : v.text;
                      },
                      {.choices = "auto hf safetensors gguf dummy"}),
                built("block-size", Kind::kInt, "unset", Group::kCache, 'A',
                      "Tokens of a KV cache block, a multiple of 16.",
                      [](Config& c, const Value& v) {
                        c.engine.cache.user_specified_block_size = !v.is_unset;
                        if (!v.is_unset) c.engine.cache.block_size = v.integer;
                      },
                      {.bounds = ">0", .octavo_default = "16"}),
                built("gpu-memory-utilization", Kind::kFloat, "0.92", Group::kCache, 'A',
                      "Share of the memory this process may use, cgroup included. Set explicitly, "
                      "the KV cache "
                      "takes all of it; also spelled --device-memory-utilization.",
                      [](Config& c, const Value& v) {
                        c.engine.cache.gpu_memory_utilization = v.real;
                        c.engine.cache.user_specified_gpu_memory_utilization = true;
                      },
                      {.bounds = ">0 <=1"}),
                built("kv-cache-memory-bytes", Kind::kHumanInt, "unset", Group::kCache, 'A',
                      "Size of the KV cache: 192M, 4G. Overrides the share.",
                      [](Config& c, const Value& v) {
                        c.engine.cache.kv_cache_memory_bytes = optional_integer(v);
                      },
                      {.bounds = ">=1"}),
                built(
                    "kv-cache-dtype", Kind::kEnum, "auto", Group::kCache, 'A',
                    "Type of keys and values; auto: fp8 where a compressed-tensors checkpoint has "
                    "a kv_cache_scheme, float32 with --dtype float32, float16 with float16, else "
                    "bfloat16. fp8 is fp8_e4m3: half the memory of bfloat16, with the scaling "
                    "factors of the checkpoint if it has any; attention then computes in bfloat16 "
                    "whatever --dtype says.",
                    [](Config& c, const Value& v) { c.engine.cache.kv_cache_dtype = v.text; },
                    {.choices = "auto float16 bfloat16 fp8 fp8_e4m3 fp8_e5m2"}),
                built("num-gpu-blocks-override", Kind::kInt, "unset", Group::kCache, 'A',
                      "Exact number of KV cache blocks, for tests of preemption.",
                      [](Config& c, const Value& v) {
                        c.engine.cache.num_gpu_blocks_override = optional_integer(v);
                      },
                      {.bounds = ">=1"}),
                built("enable-prefix-caching", Kind::kBool, "unset", Group::kCache, 'A',
                      "Reuses the KV blocks of equal prompt beginnings; on where the model allows "
                      "it.",
                      [](Config& c, const Value& v) {
                        c.engine.cache.enable_prefix_caching = v.boolean;
                      }),
                built("prefix-caching-hash-algo", Kind::kEnum, "sha256", Group::kCache, 'B',
                      "Hash that names a block of the prefix cache.",
                      [](Config& c, const Value& v) {
                        c.engine.cache.prefix_caching_hash_algo = v.text;
                      },
                      {.choices = "sha256 sha256_cbor xxhash xxhash_cbor"}),
                built("max-num-batched-tokens", Kind::kHumanInt, "unset", Group::kScheduler, 'A',
                      "Most tokens of one step; unset: chosen for this machine.",
                      [](Config& c, const Value& v) {
                        c.engine.scheduler.max_num_batched_tokens = optional_integer(v);
                      },
                      {.bounds = ">=1"}),
                built("max-num-scheduled-tokens", Kind::kHumanInt, "unset", Group::kScheduler, 'B',
                      "Most tokens the scheduler gives out in one step; unset: "
                      "--max-num-batched-tokens.",
                      [](Config& c, const Value& v) {
                        c.engine.scheduler.max_num_scheduled_tokens = optional_integer(v);
                      },
                      {.bounds = ">=1"}),
                built("max-num-seqs", Kind::kInt, "unset", Group::kScheduler, 'A',
                      "Most requests that run at once; unset: chosen for this machine.",
                      [](Config& c, const Value& v) {
                        c.engine.scheduler.max_num_seqs = optional_integer(v);
                      },
                      {.bounds = ">=1"}),
                built("max-num-queued-reqs", Kind::kInt, "unset", Group::kScheduler, 'A',
                      "Most requests that wait; more are answered with 503.",
                      [](Config& c, const Value& v) {
                        c.engine.scheduler.max_num_queued_reqs = optional_integer(v);
                      },
                      {.bounds = ">=0"}),
                built("max-num-queued-tokens", Kind::kHumanInt, "unset", Group::kScheduler, 'B',
                      "Most prompt tokens that wait; more are answered with 503.",
                      [](Config& c, const Value& v) {
                        c.engine.scheduler.max_num_queued_tokens = optional_integer(v);
                      },
                      {.bounds = ">=0"}),
                built("long-prefill-token-threshold", Kind::kInt, "0", Group::kScheduler, 'B',
                      "Most prompt tokens of one request in one step; 0: no cap of its own.",
                      [](Config& c, const Value& v) {
                        c.engine.scheduler.long_prefill_token_threshold = v.integer;
                      },
                      {.bounds = ">=0"}),
                built("scheduling-policy", Kind::kEnum, "fcfs", Group::kScheduler, 'A',
                      "Order of waiting requests; priority: lower numbers first.",
                      [](Config& c, const Value& v) {
                        c.engine.scheduler.scheduling_policy = v.text;
                      },
                      {.choices = "fcfs priority"}),
                built("enable-chunked-prefill", Kind::kBool, "unset", Group::kScheduler, 'A',
                      "Lets a prompt be computed over several steps; on.",
                      [](Config& c, const Value& v) {
                        c.engine.scheduler.enable_chunked_prefill = v.boolean;
                      }),
                built("scheduler-reserve-full-isl", Kind::kBool, "True", Group::kScheduler, 'B',
                      "Admits a request only when blocks for its whole prompt are free.",
                      [](Config& c, const Value& v) {
                        c.engine.scheduler.scheduler_reserve_full_isl = v.boolean;
                      }),
                built("watermark", Kind::kFloat, "0.0", Group::kScheduler, 'B',
                      "Share of the KV blocks that admission leaves free.",
                      [](Config& c, const Value& v) { c.engine.scheduler.watermark = v.real; },
                      {.bounds = ">=0 <1"}),
                built(
                    "performance-mode", Kind::kEnum, "balanced", Group::kVllm, 'A',
                    "throughput doubles the two batch sizes that are unset.",
                    [](Config& c, const Value& v) { c.engine.scheduler.performance_mode = v.text; },
                    {.choices = "balanced interactivity throughput"}),
            });

}  // namespace

std::span<const Flag> engine_flags() { return kEngineFlags; }

}  // namespace octavo::config
