#pragma once

#include "model/layers/attention.h"
#include "model/layers/mlp.h"
#include "model/layers/rms_norm.h"

namespace octavo::model {

/// One pre-norm layer: hidden += attention(norm(hidden)); hidden += mlp(norm(hidden)).
class DecoderLayer {
 public:
  DecoderLayer(RmsNorm attention_norm, Attention attention, RmsNorm mlp_norm, Mlp mlp)
      : attention_norm_(std::move(attention_norm)),
        attention_(std::move(attention)),
        mlp_norm_(std::move(mlp_norm)),
        mlp_(std::move(mlp)) {}

  size_t size_bytes() const;
  size_t workspace_bytes(const StepLimits& limits) const;
  const Attention& attention() const { return attention_; }
  const Mlp& mlp() const { return mlp_; }

  /// As Linear's.
  device::Reading reading() const { return attention_.reading(); }
  void set_next(const device::Reading& next) {
    attention_.set_next(mlp_.reading());
    mlp_.set_next(next);
  }

  /// Runs every row through the layer, in place in activations.hidden.
  Status forward(const Step& step, const RotaryEmbedding& rope,
                 const kernels::KvLayer& cache) const;
  /// The last layer: leaves the step's logits_rows, in order, in the first rows of
  /// activations.hidden. No other row is needed once its K and V are in the cache, and what a row
  /// becomes depends on that row alone, so leaving rows out changes nothing.
  Status forward_last(const Step& step, const RotaryEmbedding& rope,
                      const kernels::KvLayer& cache) const;

 private:
  Status finish(const Step& step, int64_t num_rows, std::span<const int32_t> row_adapters) const;

  RmsNorm attention_norm_;
  Attention attention_;
  RmsNorm mlp_norm_;
  Mlp mlp_;
};

}  // namespace octavo::model
