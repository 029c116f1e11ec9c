#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace octavo::model {

enum class NormKind { kRms, kLayer };
/// Where the norms of a layer stand: before attention and MLP, after them, or both.
enum class NormPlace { kPre, kPost, kSandwich };
/// Norm of q and k before rope: of every head by itself, or of all heads of a token together.
enum class QkNorm { kNone, kPerHead, kWhole };
enum class Activation { kSilu, kGelu, kGeluTanh, kRelu };
enum class PositionKind { kRope, kLearned, kNone };
enum class RopeKind { kDefault, kLinear, kLlama3, kYarn };

/// Rotary embedding: base frequencies and how a longer context rescales them.
struct RopeConfig {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000.0;
  double factor = 1.0;
  int64_t original_max_position_embeddings = 0;  // llama3, yarn
  double low_freq_factor = 1.0;                  // llama3
  double high_freq_factor = 4.0;                 // llama3
  std::optional<double> attention_factor;        // yarn; unset: derived from factor and mscale
  double beta_fast = 32.0;                       // yarn
  double beta_slow = 1.0;                        // yarn
  double mscale = 0.0;                           // yarn; 0 = unset
  double mscale_all_dim = 0.0;                   // yarn; 0 = unset
  bool truncate = true;                          // yarn: correction range in whole dimensions
  std::vector<float> freq_factors;  // [head_dim / 2] divisors (GGUF rope_freqs.weight), or empty
};

/// A decoder-only transformer as data: what a config.json or GGUF header says about it, whatever
/// the file's own words. Shared code reads these values and never asks which family it runs. Some
/// values describe models that cannot be run yet; `check_built` names them.
struct DecoderConfig {
  std::string architecture;  // "LlamaForCausalLM"
  std::string dtype;         // as the file declares it ("bfloat16", ...); empty = it does not

  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_model_len = 0;  // rope scaling included

  NormKind norm_kind = NormKind::kRms;
  NormPlace norm_place = NormPlace::kPre;
  double norm_eps = 1e-6;
  double norm_weight_offset = 0.0;  // added to every norm weight
  QkNorm qk_norm = QkNorm::kNone;

  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;

  Activation activation = Activation::kSilu;
  bool gated_mlp = true;

  PositionKind position = PositionKind::kRope;
  RopeConfig rope;
  double partial_rotary_factor = 1.0;

  double attention_scale = 0.0;    // of q k^T; 0 = head_dim^-0.5
  double attention_softcap = 0.0;  // 0 = none
  double logits_softcap = 0.0;     // 0 = none
  /// Keys a query of each layer sees, itself included; 0 = all.  [num_layers]
  std::vector<int64_t> sliding_windows;
  bool attention_sinks = false;

  double embedding_multiplier = 1.0;  // of the embedding's output
  double residual_multiplier = 1.0;   // of what attention and MLP add to the residual stream
  double logits_multiplier = 1.0;
  bool parallel_residual = false;
  bool tie_word_embeddings = false;
  int64_t num_experts = 0;
  int64_t num_experts_per_token = 0;

  /// Layers that keep their KV by the same block tables form a group.  [num_layers], groups counted
  /// from 0; empty = all in group 0. No family divides its layers yet.
  std::vector<int32_t> kv_groups;

  int64_t q_size() const { return num_heads * head_dim; }
  int64_t kv_size() const { return num_kv_heads * head_dim; }
  int64_t qkv_size() const { return q_size() + 2 * kv_size(); }
  float scale_of_attention() const;
  int32_t kv_group_of(int64_t layer) const {
    return kv_groups.empty() ? 0 : kv_groups.at(size_t(layer));
  }
  int32_t num_kv_groups() const;
};

/// Ranges and relations that everything behind relies on (positive, bounded, divisible), so that no
/// later product of sizes can overflow. kInvalidArgument naming the config key; `file` is where the
/// description came from.
Status validate(const DecoderConfig& config, const std::string& file);

/// kUnsupported, naming the config key, when the description needs what the layers do not have.
Status check_built(const DecoderConfig& config, const std::string& file);

}  // namespace octavo::model
