#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Plain data that the flag table (config/flags.cc) fills. Names are vLLM's; unset means: resolved
// later, by the rule that docs/reference/flags.md states.

namespace octavo::config {

struct ModelConfig {
  std::string model;      // path of a directory or .gguf; empty = the default model of the cache
  std::string tokenizer;  // empty = from the model
  std::vector<std::string> served_model_name;
  std::string load_format = "auto";  // auto, safetensors, gguf, dummy
  std::string dtype = "auto";        // auto, half, float16, bfloat16, float, float32
  std::string quantization;          // method; empty = as the checkpoint says
  int64_t seed = 0;
  bool user_specified_seed = false;      // else unseeded requests draw fresh entropy at each start
  std::optional<int64_t> max_model_len;  // -1 = auto: the largest that fits
  int64_t max_logprobs = 20;             // -1 = no cap
  std::string logprobs_mode = "raw_logprobs";
  std::string generation_config = "auto";         // auto, vllm, or a folder
  std::string override_generation_config = "{}";  // JSON text
  bool allow_long_max_model_len = false;          // VLLM_ALLOW_LONG_MAX_MODEL_LEN
};

struct CacheConfig {
  int64_t block_size = 16;
  bool user_specified_block_size = false;
  double gpu_memory_utilization = 0.92;
  bool user_specified_gpu_memory_utilization = false;
  std::optional<int64_t> kv_cache_memory_bytes;
  std::optional<int64_t> num_gpu_blocks_override;
  std::optional<bool> enable_prefix_caching;
  std::string prefix_caching_hash_algo = "sha256";
  std::optional<std::string> python_hash_seed;  // PYTHONHASHSEED: root of the block hashes
  std::string kv_cache_dtype = "auto";
};

struct SchedulerConfig {
  std::optional<int64_t> max_num_batched_tokens;
  std::optional<int64_t> max_num_scheduled_tokens;
  std::optional<int64_t> max_num_seqs;
  int64_t long_prefill_token_threshold = 0;
  std::optional<bool> enable_chunked_prefill;
  bool scheduler_reserve_full_isl = true;
  double watermark = 0.0;
  std::optional<int64_t> max_num_queued_reqs;
  std::optional<int64_t> max_num_queued_tokens;
  std::string scheduling_policy = "fcfs";
  std::string performance_mode = "balanced";
};

/// What an engine gets in its constructor.
struct EngineConfig {
  ModelConfig model;
  CacheConfig cache;
  SchedulerConfig scheduler;
  int num_threads = 0;          // kernel pool; 0 = from cpuset and cgroup quota
  std::string cpus = "auto";    // VLLM_CPU_OMP_THREADS_BIND: auto, nobind or a list of CPUs
  int num_reserved_cpus = 0;    // VLLM_CPU_NUM_OF_RESERVED_CPU: auto leaves them to others
  std::string kernel = "auto";  // the highest ISA of the kernels, or auto
  /// Prompts waiting in the engine's queue, bytes of token ids; beyond that kOverloaded.
  int64_t max_queued_prompt_bytes = int64_t{1} << 30;
  /// Builds with OCTAVO_FAULT_HOOKS: "kill@N" or "stall@N" acts in step N (`OCTAVO_FAULT`). Empty =
  /// none; other builds refuse to start with one.
  std::string fault;
  bool profile = false;  // OCTAVO_PROFILE: add up the time of each op, print it at the end
};

struct ServerConfig {
  std::string host = "127.0.0.1";
  int64_t port = 8000;
  std::string uds;  // Unix socket path; replaces host and port
  std::vector<std::string> api_key;
  bool unguarded_metrics = false;
  bool disable_uvicorn_access_log = false;
  std::string disable_access_log_for_endpoints;  // comma separated exact paths
  bool enable_request_id_headers = false;
  bool enable_server_load_tracking = false;
  std::string root_path;
  std::vector<std::string> allowed_origins;
  std::vector<std::string> allowed_methods = {"*"};
  std::vector<std::string> allowed_headers = {"*"};
  bool allow_credentials = false;
  std::string ssl_keyfile;
  std::string ssl_certfile;
  int64_t shutdown_timeout_s = 30;
  int64_t keep_alive_timeout_s = 5;  // VLLM_HTTP_TIMEOUT_KEEP_ALIVE
  int64_t sse_keep_alive_interval_s = 0;
  // Limits (promise P5).
  int64_t max_request_body_bytes = 32 << 20;
  int64_t max_header_bytes = 64 << 10;
  int64_t max_header_count = 256;
  int64_t header_timeout_ms = 10'000;
  int64_t body_timeout_ms = 60'000;
  int64_t write_timeout_ms = 60'000;  // a client that reads nothing for so long is cut
  int64_t max_connections = 16'384;
  int64_t max_json_depth = 128;
  int64_t max_buffered_response_bytes = 4 << 20;  // per stream, before the client is cut
  bool keep_alive_on_engine_death = false;        // VLLM_KEEP_ALIVE_ON_ENGINE_DEATH
  int num_http_threads = 1;
};

struct FrontendConfig {
  std::string chat_template;  // path or one-line template; empty = the model's
  std::string chat_template_content_format = "auto";
  std::string default_chat_template_kwargs = "{}";  // JSON text
  bool trust_request_chat_template = false;
  std::string response_role = "assistant";
  bool return_tokens_as_token_ids = false;
  bool enable_force_include_usage = false;
  bool special_tokens_in_content = false;
  bool enable_log_requests = false;
  int64_t stream_interval = 1;
  bool disable_log_stats = false;
  // Caps on what one request may ask for.
  int64_t max_n_sequences = 16'384;         // VLLM_MAX_N_SEQUENCES: `n`
  int64_t max_completion_prompts = 1'024;   // VLLM_MAX_COMPLETION_PROMPTS
  int64_t max_stop_strings = 4;             // VLLM_MAX_STOP_STRINGS
  int64_t max_num_bad_words = 128;          // VLLM_MAX_NUM_BAD_WORDS
  bool skip_model_name_validation = false;  // VLLM_SKIP_MODEL_NAME_VALIDATION
  double log_stats_interval_s = 5.0;        // VLLM_LOG_STATS_INTERVAL
};

struct Config {
  EngineConfig engine;
  ServerConfig server;
  FrontendConfig frontend;
  std::string log_level = "INFO";
  /// (flag, value as text) of what differs from the default, secrets as ***, for the start line.
  std::vector<std::pair<std::string, std::string>> non_default_args;
  /// The whole command line, a word each, flags by their full names, secrets as ***.
  std::vector<std::string> command_line;
};

}  // namespace octavo::config
