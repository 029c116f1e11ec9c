#include "model/layers/decoder_layer.h"

#include <algorithm>
#include <cstring>

namespace octavo::model {
namespace {

/// Moves rows[i] to row i. Ascending, so a row is never overwritten before it has moved.
void keep_rows(float* x, int64_t num_cols, std::span<const int32_t> rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (size_t(rows[i]) == i) continue;
    std::memcpy(x + int64_t(i) * num_cols, x + int64_t(rows[i]) * num_cols,
                size_t(num_cols) * sizeof(float));
  }
}

}  // namespace

size_t DecoderLayer::size_bytes() const {
  return attention_norm_.size_bytes() + attention_.size_bytes() + mlp_norm_.size_bytes() +
         mlp_.size_bytes();
}

size_t DecoderLayer::workspace_bytes(const StepLimits& limits) const {
  return std::max(attention_.workspace_bytes(limits), mlp_.workspace_bytes(limits));
}

Status DecoderLayer::forward(const Step& step, const RotaryEmbedding& rope,
                             const kernels::KvLayer& cache) const {
  OCTAVO_TRY(attention_.project_qkv(step, attention_norm_.row_norm(), rope, cache));
  attention_.write_and_attend(step, cache);
  return finish(step, step.num_tokens, step.row_adapters);
}

Status DecoderLayer::forward_last(const Step& step, const RotaryEmbedding& rope,
                                  const kernels::KvLayer& cache) const {
  const Activations& act = step.activations;
  OCTAVO_TRY(attention_.project_qkv(step, attention_norm_.row_norm(), rope, cache));
  if (step.logits_rows.empty()) {  // a prefill chunk that only fills the cache
    attention_.write_kv(step, cache);
    return {};
  }
  attention_.write_and_attend(step, cache);
  keep_rows(act.attention, attention_.o_proj().num_cols(), step.logits_rows);
  keep_rows(act.hidden, attention_norm_.size(), step.logits_rows);
  return finish(step, int64_t(step.logits_rows.size()), step.logits_row_adapters);
}

Status DecoderLayer::finish(const Step& step, int64_t num_rows,
                            std::span<const int32_t> row_adapters) const {
  OCTAVO_TRY(attention_.project(step, num_rows, row_adapters));
  return mlp_.forward(step, num_rows, mlp_norm_.row_norm(), row_adapters);
}

}  // namespace octavo::model
