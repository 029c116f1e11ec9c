#include "model/architectures/architecture.h"
#include "model/architectures/common.h"

// Qwen3 (dense): a norm on every head of q and k before rope; head_dim is its own parameter, so q
// may be wider than the hidden size.

namespace octavo::model {
namespace {

constexpr auto kWeightNames = [] {
  std::array<WeightName, kLlamaWeightNames.size() + 2> names{};
  for (size_t i = 0; i < kLlamaWeightNames.size(); ++i) names[i] = kLlamaWeightNames[i];
  names[names.size() - 2] = {Target::kQNorm, 0, "model.layers.{}.self_attn.q_norm",
                             "blk.{}.attn_q_norm"};
  names[names.size() - 1] = {Target::kKNorm, 0, "model.layers.{}.self_attn.k_norm",
                             "blk.{}.attn_k_norm"};
  return names;
}();

Result<DecoderConfig> read_hf(const checkpoint::Checkpoint& checkpoint) {
  const ConfigReader reader = hf_reader(checkpoint);
  OCTAVO_TRY(DecoderConfig config, read_hf_common(checkpoint, kQwen3.name));
  config.qk_norm = QkNorm::kPerHead;
  OCTAVO_TRY(config.qkv_bias, reader.get_bool("attention_bias", false));
  config.attention_output_bias = config.qkv_bias;
  OCTAVO_TRY(read_qwen_windows(reader, config));
  return config;
}

Result<DecoderConfig> read_gguf(const checkpoint::Checkpoint& checkpoint) {
  OCTAVO_TRY(DecoderConfig config, read_gguf_common(checkpoint, kQwen3.name, kQwen3.gguf_name));
  config.qk_norm = QkNorm::kPerHead;
  return config;
}

}  // namespace

const Architecture kQwen3 = {"Qwen3ForCausalLM",
                             "qwen3",
                             read_hf,
                             read_gguf,
                             kWeightNames,
                             /*gguf_interleaves_rope=*/false};

}  // namespace octavo::model
