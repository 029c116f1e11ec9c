#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/activations.h"
#include "model/decoder_config.h"
#include "model/layers/decoder_layer.h"
#include "model/layers/embedding.h"
#include "model/layers/lm_head.h"
#include "model/model.h"
#include "model/weights/kv_scales.h"
#include "model/weights/weight_loader.h"

namespace octavo::model {

/// The decoder that every family runs on: embedding, layers, final norm, LM head.
class Decoder final : public Model {
 public:
  /// Takes all weights from `loader`. `communicator` is the one the loader's layers refer to.
  static Result<std::unique_ptr<Decoder>> create(const DecoderConfig& config,
                                                 const DTypePlan& dtype, WeightLoader& loader,
                                                 WeightSource& source,
                                                 std::unique_ptr<Communicator> communicator);

  const ModelInfo& info() const override { return info_; }
  /// What `info` says of it.
  void set_quantization(std::string_view name) { info_.quantization = name; }
  /// Of each layer, for a KV cache of one byte; empty: ones. Before allocate_kv.
  void set_kv_scales(std::vector<KvScales> scales);
  const DecoderConfig& config() const { return config_; }

  size_t kv_block_bytes(int64_t block_size) const override;
  Status allocate_kv(int64_t num_blocks, int64_t block_size) override;
  BlockIdentity block_identity() const override;
  Status gather_block(int32_t block, std::span<std::byte> out) const override;
  Status restore_block(int32_t block, std::span<const std::byte> bytes) override;
  size_t activation_bytes(int64_t max_num_batched_tokens, int64_t max_num_seqs,
                          int64_t max_logits_rows, int64_t max_model_len,
                          int num_threads) const override;
  Status reserve(const kernels::KernelContext& ctx, int64_t max_num_batched_tokens,
                 int64_t max_num_seqs, int64_t max_logits_rows, int64_t max_model_len) override;
  Status forward(const kernels::KernelContext& ctx, const ForwardBatch& batch,
                 std::span<float> logits, std::span<kernels::LogitsScan> largest) override;

 private:
  Decoder(const DecoderConfig& config, std::unique_ptr<Communicator> communicator);
  Status load_weights(WeightLoader& loader, WeightSource& source);
  /// Tells every matrix what a step reads after it: the layers, the head, the first layer again.
  void link_matrices();
  void fill_info(const DTypePlan& dtype, const WeightLoader& loader, const WeightSource& source);
  size_t workspace_bytes(const StepLimits& limits) const;
  Status check_block(int32_t block, size_t size_bytes) const;
  /// Bytes of one block in one layer; a layer's blocks lie one after the other.
  size_t layer_block_bytes() const { return kv_block_bytes(block_size_) / kv_layers_.size(); }
  void fill_step_kv(const ForwardBatch& batch);
  Status run_layers(const Step& step) const;
  /// The head's part of `forward`, from the hidden rows that the last layer has kept.
  void write_logits(const kernels::KernelContext& ctx, const ForwardBatch& batch,
                    std::span<float> logits, std::span<kernels::LogitsScan> largest);

  DecoderConfig config_;
  ModelInfo info_;
  std::vector<KvScales> kv_scales_;  // [num_layers] or empty
  std::unique_ptr<Communicator> communicator_;
  RotaryEmbedding rope_;
  Embedding embedding_;
  std::vector<DecoderLayer> layers_;
  RmsNorm final_norm_;
  LmHead lm_head_;

  StepLimits limits_;
  std::optional<Activations> activations_;
  device::Buffer kv_;
  std::vector<kernels::KvLayer> kv_layers_;  // [num_layers], views of kv_
  int64_t num_blocks_ = 0;
  int64_t block_size_ = 0;
  std::vector<StepKv> step_kv_;               // of the current step
  std::vector<int32_t> logits_row_adapters_;  // the same
  std::vector<float*> whole_rows_;            // of the step at hand: where rows of logits go
};

}  // namespace octavo::model
