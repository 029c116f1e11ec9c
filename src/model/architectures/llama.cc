#include "model/architectures/architecture.h"
#include "model/architectures/common.h"

// Llama 1 to 3 and what is built like them. `attention_bias` covers q, k, v and o alike.

namespace octavo::model {
namespace {

Result<DecoderConfig> read_hf(const checkpoint::Checkpoint& checkpoint) {
  const ConfigReader reader = hf_reader(checkpoint);
  OCTAVO_TRY(DecoderConfig config, read_hf_common(checkpoint, kLlama.name));
  OCTAVO_TRY(config.qkv_bias, reader.get_bool("attention_bias", false));
  config.attention_output_bias = config.qkv_bias;
  OCTAVO_TRY(config.mlp_bias, reader.get_bool("mlp_bias", false));
  OCTAVO_TRY(read_layer_windows(reader, config));
  return config;
}

Result<DecoderConfig> read_gguf(const checkpoint::Checkpoint& checkpoint) {
  return read_gguf_common(checkpoint, kLlama.name, kLlama.gguf_name);
}

}  // namespace

const Architecture kLlama = {"LlamaForCausalLM",
                             "llama",
                             read_hf,
                             read_gguf,
                             kLlamaWeightNames,
                             /*gguf_interleaves_rope=*/true};

}  // namespace octavo::model
