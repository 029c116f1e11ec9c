#include "model/architectures/architecture.h"
#include "model/architectures/common.h"

// Qwen2 and 2.5: q, k and v always have biases, o never; windows only with `use_sliding_window`.

namespace octavo::model {
namespace {

Result<DecoderConfig> read_hf(const checkpoint::Checkpoint& checkpoint) {
  OCTAVO_TRY(DecoderConfig config, read_hf_common(checkpoint, kQwen2.name));
  config.qkv_bias = true;
  OCTAVO_TRY(read_qwen_windows(hf_reader(checkpoint), config));
  return config;
}

Result<DecoderConfig> read_gguf(const checkpoint::Checkpoint& checkpoint) {
  OCTAVO_TRY(DecoderConfig config, read_gguf_common(checkpoint, kQwen2.name, kQwen2.gguf_name));
  config.qkv_bias = true;
  return config;
}

}  // namespace

const Architecture kQwen2 = {"Qwen2ForCausalLM",
                             "qwen2",
                             read_hf,
                             read_gguf,
                             kLlamaWeightNames,
                             /*gguf_interleaves_rope=*/false};

}  // namespace octavo::model
