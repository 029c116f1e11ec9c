#pragma once

#include <array>
#include <span>
#include <string_view>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/decoder_config.h"

namespace octavo::model {

/// The matrices and vectors a decoder is made of.
enum class Target {
  kEmbedding,
  kLmHead,
  kFinalNorm,
  kAttentionNorm,
  kMlpNorm,
  kQkvProj,  // parts: q, k, v
  kOProj,
  kQNorm,
  kKNorm,
  kGateUpProj,  // parts: gate, up
  kDownProj,
};

/// In place of a part: the tensor of the file holds all parts, stacked in their order.
inline constexpr int kFused = -1;

/// One row of a family's table of weight names: what a tensor of the file is part of. `{}` stands
/// for the layer; ".weight" or ".bias" follows.
struct WeightName {
  Target target;
  int part;  // of the target, stacked in this order; or kFused
  std::string_view hf;
  std::string_view gguf;
  /// The HF file has the matrix as [num_cols, num_rows] (GPT-2's Conv1D). GGUF never does.
  bool hf_transposed = false;
};

/// A family: how its config becomes a description, and how its weights are called.
struct Architecture {
  std::string_view name;       // in config.json's `architectures`
  std::string_view gguf_name;  // GGUF `general.architecture`; keys start with it
  Result<DecoderConfig> (*read_hf)(const checkpoint::Checkpoint&);
  Result<DecoderConfig> (*read_gguf)(const checkpoint::Checkpoint&);
  std::span<const WeightName> weight_names;
  /// GGUF files of this family store the rows of q and k with rotary pairs side by side
  /// (x0 y0 x1 y1 ...), where config.json's layout has halves (x0 x1 ... y0 y1 ...).
  bool gguf_interleaves_rope = false;
};

/// Names of the llama family, which most later ones kept.
inline constexpr auto kLlamaWeightNames = std::to_array<WeightName>({
    {Target::kEmbedding, 0, "model.embed_tokens", "token_embd"},
    {Target::kLmHead, 0, "lm_head", "output"},
    {Target::kFinalNorm, 0, "model.norm", "output_norm"},
    {Target::kAttentionNorm, 0, "model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {Target::kMlpNorm, 0, "model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    {Target::kQkvProj, 0, "model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {Target::kQkvProj, 1, "model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {Target::kQkvProj, 2, "model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {Target::kOProj, 0, "model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {Target::kGateUpProj, 0, "model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    {Target::kGateUpProj, 1, "model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    {Target::kDownProj, 0, "model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
});

extern const Architecture kLlama;
extern const Architecture kQwen2;
extern const Architecture kQwen3;

}  // namespace octavo::model
