#include "model/architectures/common.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"

namespace octavo::model {
namespace {

constexpr int64_t kMaxLayersToPrepare = 1024;  // `validate` reports larger counts

Error unsupported(const ConfigReader& reader, std::string_view key, std::string_view what) {
  return reader.error(Code::kUnsupported, key, what);
}

/// Every layer sees everything, until a family says otherwise.
void clear_windows(DecoderConfig& config) {
  if (config.num_layers >= 1 && config.num_layers <= kMaxLayersToPrepare) {
    config.sliding_windows.assign(size_t(config.num_layers), 0);
  }
}

Status default_head_dim(const ConfigReader& reader, std::string_view key, DecoderConfig& config) {
  if (config.num_heads < 1 || config.hidden_size < 1 ||
      config.hidden_size % config.num_heads != 0) {
    return reader.error(
        Code::kInvalidArgument, key,
        fmt::format("is missing, and hidden_size {} does not divide into {} attention heads",
                    config.hidden_size, config.num_heads));
  }
  config.head_dim = config.hidden_size / config.num_heads;
  return {};
}

Result<Activation> parse_activation(const ConfigReader& reader, const std::string& name) {
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return Activation::kGeluTanh;
  if (name == "relu") return Activation::kRelu;
  return unsupported(reader, "hidden_act",
                     fmt::format("is \"{}\", which octavo does not know", name));
}

Status read_hf_sizes(const ConfigReader& reader, DecoderConfig& config) {
  OCTAVO_TRY(config.vocab_size, reader.require_int("vocab_size"));
  OCTAVO_TRY(config.hidden_size, reader.require_int("hidden_size"));
  OCTAVO_TRY(config.intermediate_size, reader.require_int("intermediate_size"));
  OCTAVO_TRY(config.num_layers, reader.require_int("num_hidden_layers"));
  OCTAVO_TRY(config.num_heads, reader.require_int("num_attention_heads"));
  OCTAVO_TRY(config.num_kv_heads, reader.get_int("num_key_value_heads", config.num_heads));
  if (reader.has("head_dim")) {
    OCTAVO_TRY(config.head_dim, reader.require_int("head_dim"));
    return {};
  }
  return default_head_dim(reader, "head_dim", config);
}

/// Keys that make a model another one. Most families never write them; a config that does must not
/// run as if it had not.
Status read_hf_variations(const ConfigReader& reader, DecoderConfig& config) {
  OCTAVO_TRY(config.embedding_multiplier, reader.get_double("embedding_multiplier", 1.0));
  OCTAVO_TRY(config.residual_multiplier, reader.get_double("residual_multiplier", 1.0));
  // transformers divides the logits by it (Granite).
  OCTAVO_TRY(const double logits_scaling, reader.get_double("logits_scaling", 1.0));
  config.logits_multiplier = 1.0 / logits_scaling;
  OCTAVO_TRY(config.attention_scale, reader.get_double("attention_multiplier", 0.0));
  OCTAVO_TRY(config.attention_softcap, reader.get_double("attn_logit_softcapping", 0.0));
  OCTAVO_TRY(config.logits_softcap, reader.get_double("final_logit_softcapping", 0.0));
  OCTAVO_TRY(config.parallel_residual, reader.get_bool("use_parallel_residual", false));
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    OCTAVO_TRY(const int64_t count, reader.get_int(key, 0));
    config.num_experts = std::max(config.num_experts, count);
  }
  OCTAVO_TRY(config.num_experts_per_token, reader.get_int("num_experts_per_tok", 0));
  OCTAVO_TRY(const std::string position, reader.get_string("position_embedding_type", "rope"));
  if (position != "rope") config.position = PositionKind::kLearned;
  OCTAVO_TRY(const std::string activation, reader.get_string("hidden_act", "silu"));
  OCTAVO_TRY(config.activation, parse_activation(reader, activation));
  return {};
}

Result<std::string> read_hf_dtype(const ConfigReader& reader) {
  OCTAVO_TRY(const std::string old_spelling, reader.get_string("torch_dtype", ""));
  OCTAVO_TRY(std::string dtype, reader.get_string("dtype", old_spelling));
  constexpr std::string_view kPrefix = "torch.";
  if (dtype.starts_with(kPrefix)) dtype.erase(0, kPrefix.size());
  return dtype;
}

Status read_gguf_sizes(const checkpoint::Checkpoint& checkpoint, const ConfigReader& reader,
                       DecoderConfig& config) {
  OCTAVO_TRY(config.hidden_size, reader.require_int("embedding_length"));
  OCTAVO_TRY(config.num_layers, reader.require_int("block_count"));
  OCTAVO_TRY(config.max_model_len, reader.require_int("context_length"));
  OCTAVO_TRY(config.intermediate_size, reader.get_uniform_int("feed_forward_length", 0));
  OCTAVO_TRY(config.num_heads, reader.get_uniform_int("attention.head_count", 0));
  OCTAVO_TRY(config.num_kv_heads,
             reader.get_uniform_int("attention.head_count_kv", config.num_heads));
  if (reader.has("attention.key_length")) {
    OCTAVO_TRY(config.head_dim, reader.require_int("attention.key_length"));
  } else {
    OCTAVO_TRY(default_head_dim(reader, "attention.key_length", config));
  }
  OCTAVO_TRY(const int64_t value_dim, reader.get_int("attention.value_length", config.head_dim));
  if (value_dim != config.head_dim) {
    return unsupported(reader, "attention.value_length",
                       "differs from attention.key_length, which octavo cannot run yet");
  }
  // Some writers leave vocab_size out; the rows of the embedding are what the logits have.
  OCTAVO_TRY(config.vocab_size, reader.get_int("vocab_size", 0));
  const checkpoint::Tensor* embedding = checkpoint.find("token_embd.weight");
  if (embedding != nullptr && !embedding->shape.empty()) {
    config.vocab_size = embedding->shape.front();
  } else if (config.vocab_size == 0) {
    const checkpoint::Metadata* tokens = checkpoint.config().find("tokenizer.ggml.tokens");
    const auto* list = tokens == nullptr ? nullptr : tokens->as_strings();
    if (list != nullptr) config.vocab_size = int64_t(list->size());
  }
  return {};
}

Status read_gguf_variations(const ConfigReader& reader, DecoderConfig& config) {
  OCTAVO_TRY(config.embedding_multiplier, reader.get_double("embedding_scale", 1.0));
  OCTAVO_TRY(config.residual_multiplier, reader.get_double("residual_scale", 1.0));
  // llama.cpp multiplies by it in some architectures and divides in others: a family that has it
  // reads it itself.
  OCTAVO_TRY(const double logit_scale, reader.get_double("logit_scale", 1.0));
  if (logit_scale != 1.0) {
    return unsupported(reader, "logit_scale", "is not known in this architecture");
  }
  OCTAVO_TRY(config.attention_scale, reader.get_double("attention.scale", 0.0));
  OCTAVO_TRY(config.attention_softcap, reader.get_double("attn_logit_softcapping", 0.0));
  OCTAVO_TRY(config.logits_softcap, reader.get_double("final_logit_softcapping", 0.0));
  OCTAVO_TRY(config.parallel_residual, reader.get_bool("use_parallel_residual", false));
  OCTAVO_TRY(config.num_experts, reader.get_int("expert_count", 0));
  OCTAVO_TRY(config.num_experts_per_token, reader.get_int("expert_used_count", 0));
  OCTAVO_TRY(const bool causal, reader.get_bool("attention.causal", true));
  if (!causal) return unsupported(reader, "attention.causal", "is false: not a decoder");
  if (reader.has("attention.sliding_window")) {
    log::warning(log::Source::kEngineCore,
                 "{}: attention.sliding_window is not used by this architecture", reader.file());
  }
  return {};
}

/// Windows of the layers that `layer_types` calls sliding.
Status apply_layer_types(const ConfigReader& reader, const std::vector<std::string>& types,
                         int64_t window, DecoderConfig& config) {
  if (types.size() != config.sliding_windows.size()) {
    return reader.error(
        Code::kInvalidArgument, "layer_types",
        fmt::format("has {} entries for {} layers", types.size(), config.num_layers));
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] == "sliding_attention") {
      if (window < 1) {
        return reader.error(Code::kInvalidArgument, "sliding_window",
                            "must be positive when layer_types has sliding_attention");
      }
      config.sliding_windows.at(i) = window;
    } else if (types[i] != "full_attention") {
      return unsupported(reader, "layer_types",
                         fmt::format("has a layer of type \"{}\"", types[i].substr(0, 64)));
    }
  }
  return {};
}

}  // namespace

std::string config_file_of(const checkpoint::Checkpoint& checkpoint) {
  std::string path(checkpoint.path());
  if (!checkpoint.is_gguf()) path += "/config.json";
  return path;
}

ConfigReader hf_reader(const checkpoint::Checkpoint& checkpoint) {
  return ConfigReader(checkpoint.config(), config_file_of(checkpoint));
}

Result<DecoderConfig> read_hf_common(const checkpoint::Checkpoint& checkpoint,
                                     std::string_view architecture) {
  const ConfigReader reader = hf_reader(checkpoint);
  DecoderConfig config;
  config.architecture = architecture;
  OCTAVO_TRY(read_hf_sizes(reader, config));
  OCTAVO_TRY(read_hf_variations(reader, config));
  OCTAVO_TRY(config.norm_eps, reader.get_double("rms_norm_eps", 1e-6));
  OCTAVO_TRY(config.tie_word_embeddings, reader.get_bool("tie_word_embeddings", false));
  OCTAVO_TRY(config.dtype, read_hf_dtype(reader));
  OCTAVO_TRY(const int64_t max_positions, reader.require_int("max_position_embeddings"));
  OCTAVO_TRY(read_hf_rope(reader, max_positions, config));
  config.max_model_len = scaled_max_model_len(config.rope, max_positions);
  config.attention_sinks = checkpoint.find("model.layers.0.self_attn.sinks") != nullptr;
  clear_windows(config);
  return config;
}

Result<DecoderConfig> read_gguf_common(const checkpoint::Checkpoint& checkpoint,
                                       std::string_view architecture, std::string_view gguf_name) {
  const ConfigReader reader(checkpoint.config(), config_file_of(checkpoint),
                            std::string(gguf_name) + ".");
  DecoderConfig config;
  config.architecture = architecture;
  OCTAVO_TRY(read_gguf_sizes(checkpoint, reader, config));
  OCTAVO_TRY(read_gguf_variations(reader, config));
  OCTAVO_TRY(config.norm_eps, reader.require_double("attention.layer_norm_rms_epsilon"));
  OCTAVO_TRY(read_gguf_rope(checkpoint, reader, config));
  const auto has = [&](std::string_view name) { return checkpoint.find(name) != nullptr; };
  config.tie_word_embeddings = !has("output.weight");
  config.qkv_bias = has("blk.0.attn_q.bias");
  config.attention_output_bias = has("blk.0.attn_output.bias");
  config.mlp_bias = has("blk.0.ffn_gate.bias");
  config.attention_sinks = has("blk.0.attn_sinks.weight");
  clear_windows(config);
  return config;
}

Status read_layer_windows(const ConfigReader& reader, DecoderConfig& config) {
  OCTAVO_TRY(const std::vector<std::string> types, reader.get_strings("layer_types"));
  OCTAVO_TRY(const int64_t window, reader.get_int("sliding_window", 0));
  if (!types.empty()) return apply_layer_types(reader, types, window, config);
  if (window > 0) {
    log::warning(log::Source::kEngineCore,
                 "{}: sliding_window without layer_types is not used by this architecture",
                 reader.file());
  }
  return {};
}

Status read_qwen_windows(const ConfigReader& reader, DecoderConfig& config) {
  OCTAVO_TRY(const bool used, reader.get_bool("use_sliding_window", false));
  if (!used) return {};
  OCTAVO_TRY(const int64_t window, reader.get_int("sliding_window", 4096));
  OCTAVO_TRY(const std::vector<std::string> types, reader.get_strings("layer_types"));
  if (!types.empty()) return apply_layer_types(reader, types, window, config);
  OCTAVO_TRY(const int64_t full_layers, reader.get_int("max_window_layers", 28));
  if (window < 1 || full_layers < 0) {
    return reader.error(Code::kInvalidArgument, "sliding_window",
                        fmt::format("is {} from layer {} on; neither may be negative, nor the "
                                    "window zero",
                                    window, full_layers));
  }
  for (size_t i = 0; i < config.sliding_windows.size(); ++i) {
    if (int64_t(i) >= full_layers) config.sliding_windows[i] = window;
  }
  return {};
}

}  // namespace octavo::model
