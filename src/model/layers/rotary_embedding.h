#pragma once

#include <vector>

#include "kernels/rope/rope.h"
#include "model/decoder_config.h"

namespace octavo::model {

/// Rotary position embedding (Su et al. 2021) over whole heads, halves paired, with the context
/// extensions of `RopeConfig`. Frequencies are computed as transformers does, in f32, so that
/// angles of far positions agree.
class RotaryEmbedding {
 public:
  RotaryEmbedding() = default;
  /// `config` has passed `validate`.
  RotaryEmbedding(const RopeConfig& config, int64_t head_dim);

  const std::vector<float>& inv_freq() const { return inv_freq_; }  // [head_dim / 2]
  float attention_factor() const { return attention_factor_; }

  ///   cos_sin  [num_tokens, head_dim];  positions  [num_tokens]
  void prepare(const kernels::KernelContext& ctx, float* cos_sin, const int32_t* positions,
               int64_t num_tokens) const;
  ///   x  [num_tokens, num_heads, head_dim] in place, rows `stride` apart
  void rotate(const kernels::KernelContext& ctx, float* x, int64_t stride, const float* cos_sin,
              int64_t num_tokens, int64_t num_heads) const;

 private:
  std::vector<float> inv_freq_;
  float attention_factor_ = 1.0f;
};

}  // namespace octavo::model
