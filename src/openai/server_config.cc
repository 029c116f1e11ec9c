// GET /octavo/config: what this server runs with, for run records. Nothing of requests, no secrets:
// keys are *** in non_default_args already.
#include <string>

#include "config/version.h"
#include "openai/api.h"
#include "openai/json_writer.h"

namespace octavo::openai {
namespace {

JsonWriter& string_or_null(JsonWriter& w, std::string_view text) {
  return text.empty() ? w.null() : w.string(text);
}

/// Null until it has been computed, which asking begins.
void write_weights_hash(JsonWriter& w, checkpoint::ContentHash* weights) {
  using State = checkpoint::ContentHash::State;
  const auto answer = weights == nullptr ? checkpoint::ContentHash::Answer{} : weights->ask();
  string_or_null(w.key("weights_sha256"), answer.hex);
  std::string state(name_of(answer.state));
  if (answer.state == State::kFailed) state += ": " + answer.why;
  w.key("weights_sha256_state").string(state);
}

void write_model(JsonWriter& w, const ApiContext& api, const engine::EngineInfo& info) {
  const config::ModelConfig& model = api.config->engine.model;
  w.key("model").begin_object();
  w.key("path").string(api.model_root);
  w.key("tokenizer").string(model.tokenizer.empty() ? api.model_root : model.tokenizer);
  w.key("served_model_name").begin_array();
  if (model.served_model_name.empty()) w.string(model.model);
  for (const std::string& name : model.served_model_name) w.string(name);
  w.end_array();
  w.key("architecture").string(info.architecture).key("dtype").string(info.dtype);
  w.key("weight_format").string(info.weight_format);
  w.key("quantization");
  info.quantization.empty() ? w.null() : w.string(info.quantization);
  string_or_null(w.key("revision"), api.model_revision);
  write_weights_hash(w, api.weights);
  w.key("weight_bytes").integer(int64_t(info.weight_bytes));
  w.key("vocab_size").integer(info.vocab_size).key("max_model_len").integer(info.max_model_len);
  w.key("seed").integer(model.seed);
  w.key("default_sampling")
      .raw(api.default_sampling_json.empty() ? "{}" : api.default_sampling_json);
  w.end_object();
}

void write_cache(JsonWriter& w, const engine::EngineInfo& info) {
  w.key("cache").begin_object();
  w.key("block_size").integer(info.block_size).key("num_blocks").integer(info.num_blocks);
  w.key("kv_cache_bytes").integer(int64_t(info.kv_cache_bytes));
  w.key("kv_cache_size_tokens").integer(info.kv_cache_size_tokens);
  w.key("kv_cache_dtype").string(info.kv_cache_dtype);
  w.key("enable_prefix_caching").boolean(info.enable_prefix_caching);
  w.key("prefix_caching_hash_algo").string(info.prefix_caching_hash_algo);
  w.end_object();
}

void write_scheduler(JsonWriter& w, const ApiContext& api, const engine::EngineInfo& info) {
  const config::SchedulerConfig& scheduler = api.config->engine.scheduler;
  w.key("scheduler").begin_object();
  w.key("max_num_seqs").integer(info.max_num_seqs);
  w.key("max_num_batched_tokens").integer(info.max_num_batched_tokens);
  w.key("enable_chunked_prefill").boolean(info.enable_chunked_prefill);
  w.key("policy").string(scheduler.scheduling_policy);
  w.key("performance_mode").string(scheduler.performance_mode);
  w.end_object();
}

}  // namespace

void get_server_config(const ApiContext& api, HttpRequest, std::shared_ptr<Exchange> exchange) {
  const engine::EngineInfo& info = api.frontend->engine_info();
  HttpResponse out;
  JsonWriter w(out.body);
  w.begin_object().key("format").string("octavo-config/1");
  w.key("version").string(config::version()).key("git_revision").string(config::git_revision());
  w.key("system_fingerprint").string(api.system_fingerprint);
  w.key("started_s").integer(api.created_s);
  string_or_null(w.key("image_digest"), api.image_digest);
  w.key("command_line").begin_array();
  for (const std::string& word : api.config->command_line) w.string(word);
  w.end_array();
  w.key("non_default_args").begin_object();
  for (const auto& [flag, value] : api.config->non_default_args) w.key(flag).string(value);
  w.end_object();
  write_model(w, api, info);
  write_cache(w, info);
  write_scheduler(w, api, info);
  // One engine on one device: the flags that would change this are refused.
  w.key("parallel").begin_object().key("tensor_parallel_size").integer(1);
  w.key("pipeline_parallel_size").integer(1).key("data_parallel_size").integer(1).end_object();
  w.key("device").begin_object().key("kernels").string(api.kernels);
  w.key("num_threads").integer(api.num_threads).end_object();
  w.end_object();
  exchange->respond(std::move(out));
}

}  // namespace octavo::openai
