#pragma once

#include <cstdint>

#include "base/result.h"
#include "device/memory.h"
#include "model/decoder_config.h"

namespace octavo::model {

/// The largest step that can come.
struct StepLimits {
  int64_t num_tokens = 0;
  int64_t num_seqs = 0;
  int64_t num_logits_rows = 0;
  int64_t max_model_len = 0;
  int num_threads = 1;  // of the kernel pool
};

/// The f32 buffers that a step's values pass through, in one reservation made once. Attention and
/// MLP never hold values at the same time, so `qkv`, `attention` share their place with `mlp`.
class Activations {
 public:
  /// Bytes of the reservation for steps up to `limits`.
  static size_t size_bytes(const DecoderConfig& config, const StepLimits& limits);
  static Result<Activations> create(const DecoderConfig& config, const StepLimits& limits);

  size_t size_bytes() const { return buffer_.size_bytes(); }

  float* hidden = nullptr;     // [num_tokens, hidden_size] the residual stream
  float* projected = nullptr;  // [num_tokens, hidden_size] on its way to the residual stream
  float* cos_sin = nullptr;    // [num_tokens, head_dim]
  float* qkv = nullptr;        // [num_tokens, q_size + 2 * kv_size]
  float* attention = nullptr;  // [num_tokens, q_size]
  /// What down_proj reads: [num_tokens, intermediate_size] in f32 or a smaller form.
  std::byte* mlp = nullptr;

 private:
  device::Buffer buffer_;
};

}  // namespace octavo::model
