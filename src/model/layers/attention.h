#pragma once

#include <optional>

#include "model/decoder_config.h"
#include "model/layers/linear.h"
#include "model/layers/rms_norm.h"
#include "model/layers/rotary_embedding.h"
#include "model/layers/step.h"

namespace octavo::model {

/// Grouped-query attention over the paged cache: q, k, v in one product, optional norms of their
/// heads, rope, the cache, the output product added to the residual stream.
class Attention {
 public:
  struct Weights {
    Linear qkv_proj;
    Linear o_proj;
    std::optional<RmsNorm> q_norm;
    std::optional<RmsNorm> k_norm;
  };

  Attention(const DecoderConfig& config, int64_t layer, Weights weights);

  size_t size_bytes() const;
  size_t workspace_bytes(const StepLimits& limits) const;
  const Linear& qkv_proj() const { return weights_.qkv_proj; }
  const Linear& o_proj() const { return weights_.o_proj; }

  /// As Linear's. Cache and o_proj are named in each step.
  device::Reading reading() const { return weights_.qkv_proj.reading(); }
  void set_next(const device::Reading& next) {
    weights_.qkv_proj.set_next({});
    weights_.o_proj.set_next(next);
  }

  /// Reads the rows of activations.hidden through `norm`; leaves queries, keys and values of this
  /// step's tokens in activations.qkv. `cache` is what they will attend to.
  Status project_qkv(const Step& step, const kernels::RowNorm& norm, const RotaryEmbedding& rope,
                     const kernels::KvLayer& cache) const;
  /// After project_qkv: keys and values go to `cache`.
  void write_kv(const Step& step, const kernels::KvLayer& cache) const;
  /// After project_qkv: write_kv, then activations.attention = softmax(q K^T) V of every row.
  void write_and_attend(const Step& step, const kernels::KvLayer& cache) const;
  /// activations.hidden += residual_multiplier * o_proj of activations.attention, first `num_rows`
  /// rows, which have the adapters `row_adapters`. Overwrites activations.projected.
  Status project(const Step& step, int64_t num_rows, std::span<const int32_t> row_adapters) const;

 private:
  /// Norms of the heads, then rope, on q and k in place.
  void turn_heads(const Step& step, const RotaryEmbedding& rope) const;
  kernels::KvTokens new_tokens(const Step& step) const;

  int64_t head_dim_;
  int64_t num_kv_heads_;
  int64_t qkv_size_;
  int64_t q_size_;
  size_t kv_group_;
  float residual_multiplier_;
  kernels::AttentionParams params_;
  Weights weights_;
};

}  // namespace octavo::model
