#include "model/layers/attention.h"

#include <algorithm>

#include "model/layers/residual.h"

namespace octavo::model {

Attention::Attention(const DecoderConfig& config, int64_t layer, Weights weights)
    : head_dim_(config.head_dim),
      num_kv_heads_(config.num_kv_heads),
      qkv_size_(config.qkv_size()),
      q_size_(config.q_size()),
      kv_group_(size_t(config.kv_group_of(layer))),
      residual_multiplier_(float(config.residual_multiplier)),
      weights_(std::move(weights)) {
  params_.num_heads = config.num_heads;
  params_.scale = config.scale_of_attention();
  params_.sliding_window = config.sliding_windows.at(size_t(layer));
  params_.softcap = float(config.attention_softcap);
}

size_t Attention::size_bytes() const {
  size_t total = weights_.qkv_proj.size_bytes() + weights_.o_proj.size_bytes();
  if (weights_.q_norm) total += weights_.q_norm->size_bytes();
  if (weights_.k_norm) total += weights_.k_norm->size_bytes();
  return total;
}

size_t Attention::workspace_bytes(const StepLimits& limits) const {
  return std::max(
      {weights_.qkv_proj.workspace_bytes(limits.num_tokens, limits.num_threads),
       weights_.o_proj.workspace_bytes(limits.num_tokens, limits.num_threads),
       kernels::attention_workspace_bytes(limits.num_tokens, params_.num_heads, head_dim_,
                                          limits.max_model_len, limits.num_threads)});
}

Status Attention::project_qkv(const Step& step, const kernels::RowNorm& norm,
                              const RotaryEmbedding& rope, const kernels::KvLayer& cache) const {
  const Activations& act = step.activations;
  {
    const kernels::KvReading next{cache, step.kv_groups[kv_group_].attention, params_};
    step.ctx.pool.read_next(next.reading());
    const auto timer = weights_.qkv_proj.timer(step.ctx, kernels::Op::kQkvProj, step.num_tokens);
    OCTAVO_TRY(weights_.qkv_proj.forward(step.ctx, act.qkv, act.hidden, step.num_tokens,
                                         kernels::Epilogue::kStore, step.row_adapters, &norm));
  }
  turn_heads(step, rope);
  return {};
}

kernels::KvTokens Attention::new_tokens(const Step& step) const {
  const float* k = step.activations.qkv + q_size_;
  return {k, k + num_kv_heads_ * head_dim_, qkv_size_, step.kv_groups[kv_group_].slot_mapping};
}

void Attention::write_kv(const Step& step, const kernels::KvLayer& cache) const {
  const kernels::OpTimer timer(step.ctx, kernels::Op::kKvWrite);
  kernels::kv_write(step.ctx, cache, new_tokens(step), step.num_tokens);
}

void Attention::turn_heads(const Step& step, const RotaryEmbedding& rope) const {
  const kernels::OpTimer timer(step.ctx, kernels::Op::kRope);
  const Activations& act = step.activations;
  float* q = act.qkv;
  if (weights_.q_norm) {
    weights_.q_norm->forward_heads(step.ctx, q, qkv_size_, step.num_tokens, params_.num_heads);
  }
  if (weights_.k_norm) {
    weights_.k_norm->forward_heads(step.ctx, q + q_size_, qkv_size_, step.num_tokens,
                                   num_kv_heads_);
  }
  // q and k heads lie side by side, so one call turns both.
  rope.rotate(step.ctx, q, qkv_size_, act.cos_sin, step.num_tokens,
              params_.num_heads + num_kv_heads_);
}

void Attention::write_and_attend(const Step& step, const kernels::KvLayer& cache) const {
  const kernels::AttentionBatch& batch = step.kv_groups[kv_group_].attention;
  const bool together = kernels::one_query_each(batch);
  if (!together) write_kv(step, cache);
  const kernels::OpTimer timer(step.ctx, kernels::Op::kAttention,
                               [&] { return kernels::work_of(cache, batch, params_); });
  const kernels::KvTokens tokens = new_tokens(step);
  step.ctx.pool.read_next(weights_.o_proj.reading());
  kernels::attention(step.ctx, step.activations.attention, q_size_, step.activations.qkv, qkv_size_,
                     cache, batch, params_, together ? &tokens : nullptr);
}

Status Attention::project(const Step& step, int64_t num_rows,
                          std::span<const int32_t> row_adapters) const {
  const auto timer = weights_.o_proj.timer(step.ctx, kernels::Op::kOProj, num_rows);
  return add_to_residual(step.ctx, step.activations, num_rows * weights_.o_proj.num_rows(),
                         residual_multiplier_, [&](float* out, kernels::Epilogue epilogue) {
                           return weights_.o_proj.forward(step.ctx, out, step.activations.attention,
                                                          num_rows, epilogue, row_adapters);
                         });
}

}  // namespace octavo::model
