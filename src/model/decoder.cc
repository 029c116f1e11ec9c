#include "model/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/profile.h"
#include "model/batch_check.h"
#include "model/layers/residual.h"

namespace octavo::model {
namespace {

/// More than any machine has; keeps num_blocks * bytes within size_t.
constexpr size_t kMaxKvBytes = size_t{1} << 50;

Result<DecoderLayer> load_layer(const DecoderConfig& config, int64_t layer, WeightLoader& loader) {
  OCTAVO_TRY(RmsNorm attention_norm,
             loader.load_norm(Target::kAttentionNorm, layer, config.hidden_size));
  Attention::Weights weights;
  OCTAVO_TRY(weights.qkv_proj,
             loader.load_linear(Target::kQkvProj, layer,
                                {config.q_size(), config.kv_size(), config.kv_size()},
                                config.hidden_size, config.qkv_bias, Split::kOutputs));
  OCTAVO_TRY(weights.o_proj,
             loader.load_linear(Target::kOProj, layer, {config.hidden_size}, config.q_size(),
                                config.attention_output_bias, Split::kInputs));
  if (config.qk_norm == QkNorm::kPerHead) {
    OCTAVO_TRY(weights.q_norm, loader.load_norm(Target::kQNorm, layer, config.head_dim));
    OCTAVO_TRY(weights.k_norm, loader.load_norm(Target::kKNorm, layer, config.head_dim));
  }
  OCTAVO_TRY(RmsNorm mlp_norm, loader.load_norm(Target::kMlpNorm, layer, config.hidden_size));
  OCTAVO_TRY(Linear down,
             loader.load_linear(Target::kDownProj, layer, {config.hidden_size},
                                config.intermediate_size, config.mlp_bias, Split::kInputs));
  // Gate and up give their outputs in the order in which down reads them.
  const std::vector<int32_t> order = down.take_col_order();
  OCTAVO_TRY(Linear gate_up,
             loader.load_linear(Target::kGateUpProj, layer,
                                {config.intermediate_size, config.intermediate_size},
                                config.hidden_size, config.mlp_bias, Split::kOutputs, order));
  return DecoderLayer(std::move(attention_norm), Attention(config, layer, std::move(weights)),
                      std::move(mlp_norm),
                      Mlp(std::move(gate_up), std::move(down), config.residual_multiplier));
}

}  // namespace

Decoder::Decoder(const DecoderConfig& config, std::unique_ptr<Communicator> communicator)
    : config_(config),
      communicator_(std::move(communicator)),
      rope_(config.rope, config.head_dim) {}

Result<std::unique_ptr<Decoder>> Decoder::create(const DecoderConfig& config,
                                                 const DTypePlan& dtype, WeightLoader& loader,
                                                 WeightSource& source,
                                                 std::unique_ptr<Communicator> communicator) {
  std::unique_ptr<Decoder> decoder(new Decoder(config, std::move(communicator)));
  OCTAVO_TRY(decoder->load_weights(loader, source));
  OCTAVO_TRY(source.check_all_taken(config.num_layers, config.tie_word_embeddings));
  decoder->fill_info(dtype, loader, source);
  decoder->link_matrices();
  return decoder;
}

Status Decoder::load_weights(WeightLoader& loader, WeightSource& source) {
  OCTAVO_TRY(kernels::PackedMatrix table,
             loader.load_matrix(Target::kEmbedding, -1, config_.vocab_size, config_.hidden_size));
  embedding_ = Embedding(std::move(table));
  source.drop_pages();
  layers_.reserve(size_t(config_.num_layers));
  for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
    OCTAVO_TRY(DecoderLayer loaded, load_layer(config_, layer, loader));
    layers_.push_back(std::move(loaded));
    // Layer by layer, so that file and packed copy are never resident together (promise P4).
    source.drop_pages();
  }
  OCTAVO_TRY(final_norm_, loader.load_norm(Target::kFinalNorm, -1, config_.hidden_size));
  if (!config_.tie_word_embeddings) {
    OCTAVO_TRY(kernels::PackedMatrix head,
               loader.load_matrix(Target::kLmHead, -1, config_.vocab_size, config_.hidden_size));
    lm_head_ = LmHead(std::move(head));
    source.drop_pages();
  }
  return {};
}

void Decoder::link_matrices() {
  kernels::PackedMatrix& head = lm_head_.matrix(embedding_);
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].set_next(i + 1 < layers_.size() ? layers_[i + 1].reading()
                                               : head.reading(head.num_rows()));
  }
  if (!layers_.empty()) head.set_next(layers_.front().reading());
}

void Decoder::fill_info(const DTypePlan& dtype, const WeightLoader& loader,
                        const WeightSource& source) {
  info_.architecture = config_.architecture;
  info_.vocab_size = config_.vocab_size;
  info_.num_layers = config_.num_layers;
  info_.num_heads = config_.num_heads;
  info_.num_kv_heads = config_.num_kv_heads;
  info_.head_dim = config_.head_dim;
  info_.hidden_size = config_.hidden_size;
  info_.max_model_len = config_.max_model_len;
  info_.num_kv_groups = config_.num_kv_groups();
  info_.kv_dtype = dtype.kv_dtype.value_or(dtype.dtype);
  info_.dtype = device::name_of(dtype.dtype);
  info_.weight_format = kernels::name_of(loader.main_format());
  info_.weight_bytes = embedding_.size_bytes() + final_norm_.size_bytes() + lm_head_.size_bytes();
  for (const DecoderLayer& layer : layers_) info_.weight_bytes += layer.size_bytes();
  info_.packing_s = loader.packing_s();
  info_.weight_hash = source.hash();
}

void Decoder::set_kv_scales(std::vector<KvScales> scales) {
  CHECK(scales.empty() || int64_t(scales.size()) == config_.num_layers);
  info_.has_kv_scales = !scales.empty();
  kv_scales_ = std::move(scales);
}

size_t Decoder::kv_block_bytes(int64_t block_size) const {
  const int64_t num_pages = (block_size + kernels::kPageTokens - 1) / kernels::kPageTokens;
  return size_t(config_.num_layers) * size_t(num_pages) *
         kernels::kv_page_bytes(info_.kv_dtype, config_.num_kv_heads, config_.head_dim);
}

Status Decoder::allocate_kv(int64_t num_blocks, int64_t block_size) {
  if (block_size < kernels::kPageTokens || block_size % kernels::kPageTokens != 0 ||
      block_size > (1 << 20)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("block size {} is no positive multiple of {} (--block-size)",
                             block_size, kernels::kPageTokens)};
  }
  const size_t block_bytes = kv_block_bytes(block_size);
  if (num_blocks < 1 || size_t(num_blocks) > kMaxKvBytes / block_bytes) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{} blocks of KV cache cannot be reserved", num_blocks)};
  }
  OCTAVO_TRY(kv_, device::Buffer::create(size_t(num_blocks) * block_bytes, false));
  const int64_t num_pages = num_blocks * (block_size / kernels::kPageTokens);
  const size_t layer_bytes = size_t(num_blocks) * block_bytes / size_t(config_.num_layers);
  kv_layers_.clear();
  for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
    kv_layers_.push_back({kv_.data() + size_t(layer) * layer_bytes, info_.kv_dtype, num_pages,
                          config_.num_kv_heads, config_.head_dim});
    if (kv_scales_.empty()) continue;
    // The checkpoint's scale is that of keys as they are.
    const KvScales& scales = kv_scales_[size_t(layer)];
    kv_layers_.back().k_scale = scales.k * kernels::rotated_key_growth(config_.head_dim);
    kv_layers_.back().v_scale = scales.v;
  }
  num_blocks_ = num_blocks;
  block_size_ = block_size;
  return {};
}

BlockIdentity Decoder::block_identity() const {
  return {.weight_hash = info_.weight_hash,
          .dtype = info_.kv_dtype,
          .layout = fmt::format("[{} layers][{} pages of {} tokens][{} heads of {}]{}",
                                config_.num_layers, block_size_ / kernels::kPageTokens,
                                kernels::kPageTokens, config_.num_kv_heads, config_.head_dim,
                                !device::is_fp8(info_.kv_dtype) ? ""
                                : info_.has_kv_scales           ? ", keys rotated, scaled"
                                                                : ", keys rotated")};
}

Status Decoder::check_block(int32_t block, size_t size_bytes) const {
  if (block < 0 || block >= num_blocks_) {
    return Error{Code::kInvalidArgument, fmt::format("there is no KV block {}", block)};
  }
  if (size_bytes != kv_block_bytes(block_size_)) {
    return Error{Code::kInvalidArgument, fmt::format("a KV block has {} bytes, not {}",
                                                     kv_block_bytes(block_size_), size_bytes)};
  }
  return {};
}

Status Decoder::gather_block(int32_t block, std::span<std::byte> out) const {
  OCTAVO_TRY(check_block(block, out.size()));
  const size_t bytes = layer_block_bytes();
  for (size_t layer = 0; layer < kv_layers_.size(); ++layer) {
    std::memcpy(out.data() + layer * bytes, kv_layers_[layer].data + size_t(block) * bytes, bytes);
  }
  return {};
}

Status Decoder::restore_block(int32_t block, std::span<const std::byte> in) {
  OCTAVO_TRY(check_block(block, in.size()));
  const size_t bytes = layer_block_bytes();
  for (size_t layer = 0; layer < kv_layers_.size(); ++layer) {
    std::memcpy(kv_layers_[layer].data + size_t(block) * bytes, in.data() + layer * bytes, bytes);
  }
  return {};
}

size_t Decoder::workspace_bytes(const StepLimits& limits) const {
  size_t most = lm_head_.workspace_bytes(embedding_, limits.num_logits_rows, limits.num_threads);
  for (const DecoderLayer& layer : layers_) most = std::max(most, layer.workspace_bytes(limits));
  return most;
}

size_t Decoder::activation_bytes(int64_t max_num_batched_tokens, int64_t max_num_seqs,
                                 int64_t max_logits_rows, int64_t max_model_len,
                                 int num_threads) const {
  const StepLimits limits{max_num_batched_tokens, max_num_seqs, max_logits_rows, max_model_len,
                          num_threads};
  return Activations::size_bytes(config_, limits) + workspace_bytes(limits);
}

Status Decoder::reserve(const kernels::KernelContext& ctx, int64_t max_num_batched_tokens,
                        int64_t max_num_seqs, int64_t max_logits_rows, int64_t max_model_len) {
  if (max_num_batched_tokens < 1 || max_num_batched_tokens > (int64_t{1} << 24) ||
      max_num_seqs < 1 || max_logits_rows < 0 || max_model_len < 1) {
    return Error{Code::kInvalidArgument, fmt::format("cannot reserve for {} tokens in {} sequences",
                                                     max_num_batched_tokens, max_num_seqs)};
  }
  limits_ = {max_num_batched_tokens, max_num_seqs, max_logits_rows, max_model_len,
             ctx.pool.num_threads()};
  OCTAVO_TRY(activations_, Activations::create(config_, limits_));
  return ctx.workspace.reserve(workspace_bytes(limits_));
}

Status Decoder::forward(const kernels::KernelContext& ctx, const ForwardBatch& batch,
                        std::span<float> logits, std::span<kernels::LogitsScan> largest) {
  if (!activations_ || kv_layers_.empty()) {
    return Error{Code::kInternal, "forward before reserve and allocate_kv"};
  }
  OCTAVO_TRY(check_batch(
      batch, {limits_, config_.vocab_size, num_blocks_, block_size_, info_.num_kv_groups}));
  const int64_t num_rows = int64_t(batch.logits_rows.size());
  if (int64_t(logits.size()) != batch.num_whole_rows() * config_.vocab_size ||
      largest.size() != batch.only_largest.size()) {
    return Error{Code::kInternal, "forward: logits do not fit logits_rows"};
  }
  const int64_t num_tokens = int64_t(batch.token_ids.size());
  if (num_tokens == 0) return {};
  fill_step_kv(batch);
  logits_row_adapters_.clear();
  if (!batch.row_adapters.empty()) {
    for (const int32_t row : batch.logits_rows) {
      logits_row_adapters_.push_back(batch.row_adapters[size_t(row)]);
    }
  }
  const Step step{ctx,
                  *activations_,
                  step_kv_,
                  num_tokens,
                  batch.logits_rows,
                  batch.row_adapters,
                  logits_row_adapters_};
  {
    const kernels::OpTimer timer(ctx, kernels::Op::kEmbedding);
    embedding_.forward(ctx, activations_->hidden, batch.token_ids.data(), num_tokens);
  }
  scale(ctx, activations_->hidden, num_tokens * config_.hidden_size,
        float(config_.embedding_multiplier));
  rope_.prepare(ctx, activations_->cos_sin, batch.positions.data(), num_tokens);
  OCTAVO_TRY(run_layers(step));
  if (num_rows == 0) return {};
  const kernels::OpTimer timer(ctx, kernels::Op::kLmHead, [&] {
    return kernels::work_of(lm_head_.matrix(embedding_), num_rows);
  });
  write_logits(ctx, batch, logits, largest);
  return {};
}

void Decoder::write_logits(const kernels::KernelContext& ctx, const ForwardBatch& batch,
                           std::span<float> logits, std::span<kernels::LogitsScan> largest) {
  const float* const hidden = activations_->hidden;
  const auto num_rows = int64_t(batch.logits_rows.size());
  const auto factor = float(config_.logits_multiplier);
  if (batch.num_whole_rows() == num_rows) {
    lm_head_.forward(ctx, logits.data(), hidden, num_rows, embedding_, final_norm_.row_norm());
    scale(ctx, logits.data(), int64_t(logits.size()), factor);
    return;
  }
  whole_rows_.clear();
  float* next = logits.data();
  for (const uint8_t only_largest : batch.only_largest) {
    whole_rows_.push_back(only_largest != 0 ? nullptr : next);
    if (only_largest == 0) next += config_.vocab_size;
  }
  lm_head_.forward_largest(ctx, {whole_rows_, largest}, hidden, num_rows, embedding_, factor,
                           final_norm_.row_norm());
}

void Decoder::fill_step_kv(const ForwardBatch& batch) {
  const size_t table_size = batch.seq_lens.size() * size_t(batch.max_blocks_per_seq);
  step_kv_.clear();
  for (size_t group = 0; group < size_t(batch.num_kv_groups); ++group) {
    step_kv_.push_back(
        {{int64_t(batch.seq_lens.size()), batch.query_start_loc.data(), batch.seq_lens.data(),
          batch.block_tables.data() + group * table_size, batch.max_blocks_per_seq, block_size_},
         batch.slot_mapping.data() + group * batch.token_ids.size()});
  }
}

Status Decoder::run_layers(const Step& step) const {
  for (size_t i = 0; i + 1 < layers_.size(); ++i) {
    OCTAVO_TRY(layers_[i].forward(step, rope_, kv_layers_[i]));
  }
  return layers_.back().forward_last(step, rope_, kv_layers_.back());
}

}  // namespace octavo::model
