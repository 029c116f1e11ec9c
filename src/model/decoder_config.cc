#include "model/decoder_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace octavo::model {
namespace {

// Bounds: far above any published model, low enough that sizes in bytes stay within int64.
constexpr int64_t kMaxHiddenSize = 65536;
constexpr int64_t kMaxIntermediateSize = int64_t{1} << 20;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxVocabSize = int64_t{1} << 24;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxHeadDim = 1024;
constexpr int64_t kMaxModelLen = (int64_t{1} << 31) - 1;  // positions are int32
constexpr double kMaxRopeFactor = 1e6;
constexpr double kMaxMultiplier = 1e6;

Error bad(const std::string& file, std::string_view what) {
  return Error{Code::kInvalidArgument, fmt::format("{}: {}", file, what)};
}

Status in_range(const std::string& file, std::string_view key, int64_t value, int64_t max) {
  if (value >= 1 && value <= max) return {};
  return bad(file, fmt::format("{} is {}; it must lie between 1 and {}", key, value, max));
}

Status validate_rope(const RopeConfig& rope, int64_t head_dim, const std::string& file) {
  if (!(rope.theta > 1.0) || !(rope.theta < 1e30)) {
    return bad(file, fmt::format("rope_theta is {}; it must be above 1", rope.theta));
  }
  if (!(rope.factor > 0.0) || !(rope.factor <= kMaxRopeFactor)) {
    return bad(file, fmt::format("rope scaling factor is {}; it must lie above 0 and up to {}",
                                 rope.factor, kMaxRopeFactor));
  }
  if (rope.kind == RopeKind::kLlama3 || rope.kind == RopeKind::kYarn) {
    OCTAVO_TRY(in_range(file, "original_max_position_embeddings of the rope scaling",
                        rope.original_max_position_embeddings, kMaxModelLen));
  }
  if (rope.kind == RopeKind::kLlama3 &&
      !(rope.low_freq_factor > 0.0 && rope.high_freq_factor > rope.low_freq_factor &&
        rope.high_freq_factor < 1e9)) {
    return bad(file, fmt::format("low_freq_factor {} and high_freq_factor {}: the first must be "
                                 "above 0 and below the second",
                                 rope.low_freq_factor, rope.high_freq_factor));
  }
  if (rope.kind == RopeKind::kYarn &&
      !(rope.beta_slow > 0.0 && rope.beta_fast > rope.beta_slow && rope.beta_fast < 1e9)) {
    return bad(file, fmt::format("beta_slow {} and beta_fast {}: the first must be above 0 and "
                                 "below the second",
                                 rope.beta_slow, rope.beta_fast));
  }
  if (rope.attention_factor && !(*rope.attention_factor > 0.0 && *rope.attention_factor < 1e6)) {
    return bad(file,
               fmt::format("attention_factor is {}; it must be above 0", *rope.attention_factor));
  }
  const auto mscale_ok = [](double mscale) { return mscale >= 0.0 && mscale < 1e6; };
  if (!mscale_ok(rope.mscale) || !mscale_ok(rope.mscale_all_dim)) {
    return bad(file, "mscale and mscale_all_dim must not be negative");
  }
  if (!rope.freq_factors.empty() && int64_t(rope.freq_factors.size()) != head_dim / 2) {
    return bad(file, fmt::format("rope_freqs.weight has {} elements; head_dim / 2 is {}",
                                 rope.freq_factors.size(), head_dim / 2));
  }
  for (const float divisor : rope.freq_factors) {
    if (!(divisor > 0.0f) || !std::isfinite(divisor)) {
      return bad(file, "rope_freqs.weight holds a value that is not positive and finite");
    }
  }
  return {};
}

Status validate_multipliers(const DecoderConfig& config, const std::string& file) {
  const std::pair<std::string_view, double> all[] = {
      {"embedding_multiplier (embedding_scale)", config.embedding_multiplier},
      {"residual_multiplier (residual_scale)", config.residual_multiplier},
      {"logits_scaling (logit_scale)", config.logits_multiplier}};
  for (const auto& [key, value] : all) {
    if (!(value > 1.0 / kMaxMultiplier && value < kMaxMultiplier)) {
      return bad(file, fmt::format("{} gives a factor of {}; it must lie between 0 and {}", key,
                                   value, kMaxMultiplier));
    }
  }
  if (!(config.partial_rotary_factor > 0.0 && config.partial_rotary_factor <= 1.0)) {
    return bad(file, fmt::format("partial_rotary_factor is {}; it must lie above 0 and up to 1",
                                 config.partial_rotary_factor));
  }
  if (config.num_experts_per_token < 0 || config.num_experts_per_token > config.num_experts) {
    return bad(file, fmt::format("num_experts_per_tok (expert_used_count) is {} of {} experts",
                                 config.num_experts_per_token, config.num_experts));
  }
  return {};
}

Status validate_kv_groups(const DecoderConfig& config, const std::string& file) {
  if (config.kv_groups.empty()) return {};
  const bool all_there = int64_t(config.kv_groups.size()) == config.num_layers;
  const auto [least, most] = std::ranges::minmax_element(config.kv_groups);
  if (all_there && *least == 0 && *most < config.num_layers) return {};
  return bad(file, "the KV groups of the layers do not count from 0");
}

/// What a description may ask for that no layer does yet, and the keys that ask for it.
struct NotBuilt {
  bool (*needed)(const DecoderConfig&);
  std::string_view keys;
  std::string_view what;
};

constexpr auto kNotBuilt = std::to_array<NotBuilt>({
    {[](const DecoderConfig& c) { return c.norm_kind != NormKind::kRms; },
     "layer_norm_eps (attention.layer_norm_epsilon)", "layer norm with mean and bias"},
    {[](const DecoderConfig& c) { return c.norm_place != NormPlace::kPre; },
     "norm placement of this architecture", "norms after attention and MLP"},
    {[](const DecoderConfig& c) { return c.norm_weight_offset != 0.0; },
     "norm weights of this architecture", "norm weights stored with an offset"},
    {[](const DecoderConfig& c) { return c.qk_norm == QkNorm::kWhole; },
     "q_norm and k_norm of this architecture", "a norm over all heads of q or k together"},
    {[](const DecoderConfig& c) { return c.activation != Activation::kSilu; }, "hidden_act",
     "an activation other than silu"},
    {[](const DecoderConfig& c) { return !c.gated_mlp; }, "MLP of this architecture",
     "an MLP without gate"},
    {[](const DecoderConfig& c) { return c.position != PositionKind::kRope; },
     "position_embedding_type", "positions other than rotary"},
    {[](const DecoderConfig& c) { return c.partial_rotary_factor != 1.0; },
     "partial_rotary_factor (rope.dimension_count)", "rotary embedding of a part of each head"},
    {[](const DecoderConfig& c) { return c.logits_softcap != 0.0; },
     "final_logit_softcapping (final_logit_softcapping)", "a soft cap of the logits"},
    {[](const DecoderConfig& c) { return c.attention_sinks; }, "attention sinks",
     "attention sinks"},
    {[](const DecoderConfig& c) { return c.parallel_residual; },
     "use_parallel_residual (use_parallel_residual)", "attention and MLP side by side"},
    {[](const DecoderConfig& c) { return c.num_experts > 0; },
     "num_experts, num_local_experts, n_routed_experts (expert_count)", "mixture of experts"},
});

}  // namespace

float DecoderConfig::scale_of_attention() const {
  return attention_scale != 0.0 ? float(attention_scale) : float(1.0 / std::sqrt(double(head_dim)));
}

int32_t DecoderConfig::num_kv_groups() const {
  return kv_groups.empty() ? 1 : *std::ranges::max_element(kv_groups) + 1;
}

Status validate(const DecoderConfig& config, const std::string& file) {
  OCTAVO_TRY(in_range(file, "vocab_size", config.vocab_size, kMaxVocabSize));
  OCTAVO_TRY(in_range(file, "hidden_size", config.hidden_size, kMaxHiddenSize));
  OCTAVO_TRY(in_range(file, "intermediate_size", config.intermediate_size, kMaxIntermediateSize));
  OCTAVO_TRY(in_range(file, "num_hidden_layers", config.num_layers, kMaxLayers));
  OCTAVO_TRY(in_range(file, "num_attention_heads", config.num_heads, kMaxHeads));
  OCTAVO_TRY(in_range(file, "num_key_value_heads", config.num_kv_heads, kMaxHeads));
  OCTAVO_TRY(in_range(file, "head_dim", config.head_dim, kMaxHeadDim));
  OCTAVO_TRY(in_range(file, "max_position_embeddings with its rope scaling", config.max_model_len,
                      kMaxModelLen));
  if (config.num_heads % config.num_kv_heads != 0) {
    return bad(file, fmt::format("num_attention_heads {} is no multiple of num_key_value_heads {}",
                                 config.num_heads, config.num_kv_heads));
  }
  if (config.head_dim % 2 != 0) {
    return bad(file, fmt::format("head_dim {} is odd", config.head_dim));
  }
  if (!(config.norm_eps > 0.0) || !(config.norm_eps < 1.0)) {
    return bad(file,
               fmt::format("rms_norm_eps is {}; it must lie between 0 and 1", config.norm_eps));
  }
  if (!std::isfinite(config.attention_scale) || config.attention_scale < 0.0 ||
      !std::isfinite(config.attention_softcap) || config.attention_softcap < 0.0) {
    return bad(file, "attention_multiplier and attn_logit_softcapping must not be negative");
  }
  OCTAVO_TRY(validate_multipliers(config, file));
  OCTAVO_TRY(validate_kv_groups(config, file));
  if (int64_t(config.sliding_windows.size()) != config.num_layers) {
    return bad(file, fmt::format("layer_types has {} entries for {} layers",
                                 config.sliding_windows.size(), config.num_layers));
  }
  for (const int64_t window : config.sliding_windows) {
    if (window < 0) return bad(file, fmt::format("sliding_window is {}", window));
  }
  return validate_rope(config.rope, config.head_dim, file);
}

Status check_built(const DecoderConfig& config, const std::string& file) {
  for (const NotBuilt& row : kNotBuilt) {
    if (row.needed(config)) {
      return Error{
          Code::kUnsupported,
          fmt::format("{}: {} asks for {}, which octavo cannot run yet", file, row.keys, row.what)};
    }
  }
  return {};
}

}  // namespace octavo::model
