#include "model/layers/rotary_embedding.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace octavo::model {
namespace {

using Frequencies = std::vector<float>;

/// theta^(2j / head_dim), f32.
Frequencies base_periods(double theta, int64_t head_dim) {
  Frequencies periods(size_t(head_dim / 2));
  for (size_t j = 0; j < periods.size(); ++j) {
    periods[j] = std::pow(float(theta), float(2 * j) / float(head_dim));
  }
  return periods;
}

/// Llama 3.1: slow frequencies are divided by the factor, fast ones kept, those between blended by
/// how often they turn within the original context. Source: transformers `modeling_rope_utils`.
void scale_llama3(const RopeConfig& config, Frequencies& inv_freq) {
  const float original = float(config.original_max_position_embeddings);
  const float factor = float(config.factor);
  const float low = float(config.low_freq_factor);
  const float high = float(config.high_freq_factor);
  const float low_wavelen = float(double(original) / config.low_freq_factor);
  const float high_wavelen = float(double(original) / config.high_freq_factor);
  for (float& freq : inv_freq) {
    const float wavelen = float(2.0 * std::numbers::pi) / freq;
    if (wavelen > low_wavelen) {
      freq /= factor;
    } else if (wavelen >= high_wavelen) {
      const float smooth = (original / wavelen - low) / (high - low);
      freq = (1.0f - smooth) * freq / factor + smooth * freq;
    }
  }
}

/// The (fractional) dimension whose frequency turns `rotations` times within the original context.
double correction_dim(const RopeConfig& config, double rotations, int64_t head_dim) {
  const double turns =
      double(config.original_max_position_embeddings) / (rotations * 2.0 * std::numbers::pi);
  return double(head_dim) * std::log(turns) / (2.0 * std::log(config.theta));
}

/// YaRN (Peng et al. 2023): interpolates slow frequencies, keeps fast ones, with a linear ramp over
/// dimensions between. Source of the rounding: transformers `_compute_yarn_parameters`.
void scale_yarn(const RopeConfig& config, int64_t head_dim, const Frequencies& periods,
                Frequencies& inv_freq) {
  double low = correction_dim(config, config.beta_fast, head_dim);
  double high = correction_dim(config, config.beta_slow, head_dim);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, double(head_dim - 1));
  if (low == high) high += 0.001;
  for (size_t j = 0; j < inv_freq.size(); ++j) {
    const float ramp = std::clamp((float(j) - float(low)) / float(high - low), 0.0f, 1.0f);
    const float keep = 1.0f - ramp;
    const float interpolated = 1.0f / (float(config.factor) * periods[j]);
    inv_freq[j] = interpolated * (1.0f - keep) + (1.0f / periods[j]) * keep;
  }
}

/// How much yarn sharpens attention: the square root of its temperature, put on both q and k.
double yarn_attention_factor(const RopeConfig& config) {
  if (config.attention_factor) return *config.attention_factor;
  const auto mscale = [&](double weight) {
    return config.factor <= 1.0 ? 1.0 : 0.1 * weight * std::log(config.factor) + 1.0;
  };
  if (config.mscale != 0.0 && config.mscale_all_dim != 0.0) {
    return mscale(config.mscale) / mscale(config.mscale_all_dim);
  }
  return mscale(1.0);
}

}  // namespace

RotaryEmbedding::RotaryEmbedding(const RopeConfig& config, int64_t head_dim) {
  const Frequencies periods = base_periods(config.theta, head_dim);
  inv_freq_.resize(periods.size());
  for (size_t j = 0; j < periods.size(); ++j) inv_freq_[j] = 1.0f / periods[j];
  switch (config.kind) {
    case RopeKind::kDefault:
      break;
    case RopeKind::kLinear:
      for (float& freq : inv_freq_) freq /= float(config.factor);
      break;
    case RopeKind::kLlama3:
      scale_llama3(config, inv_freq_);
      break;
    case RopeKind::kYarn:
      scale_yarn(config, head_dim, periods, inv_freq_);
      attention_factor_ = float(yarn_attention_factor(config));
      break;
  }
  for (size_t j = 0; j < config.freq_factors.size(); ++j) inv_freq_[j] /= config.freq_factors[j];
}

void RotaryEmbedding::prepare(const kernels::KernelContext& ctx, float* cos_sin,
                              const int32_t* positions, int64_t num_tokens) const {
  kernels::rope_cos_sin(ctx, cos_sin, positions, num_tokens, inv_freq_.data(),
                        int64_t(inv_freq_.size()), attention_factor_);
}

void RotaryEmbedding::rotate(const kernels::KernelContext& ctx, float* x, int64_t stride,
                             const float* cos_sin, int64_t num_tokens, int64_t num_heads) const {
  const int64_t num_freqs = int64_t(inv_freq_.size());
  kernels::rope(ctx, x, stride, cos_sin, num_tokens, num_heads, 2 * num_freqs, num_freqs);
}

}  // namespace octavo::model
