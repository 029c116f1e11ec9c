#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "device/dtype.h"
#include "kernels/context.h"
#include "kernels/logits/logits.h"
#include "model/forward_batch.h"

namespace octavo::model {

/// `--dtype`. kAuto keeps the checkpoint's (quantised GGUF: bfloat16 KV, int8 arithmetic).
enum class DTypeChoice { kAuto, kBFloat16, kFloat16, kFloat32 };

struct ModelOptions {
  DTypeChoice dtype = DTypeChoice::kAuto;
  /// Of the KV cache; nullopt: as `dtype` gives.
  std::optional<device::DType> kv_dtype = std::nullopt;
  /// `--quantization`; empty: as the checkpoint says.
  std::string quantization = {};
  uint64_t seed = 0;  // for dummy weights
  int rank = 0;       // tensor parallelism: one rank now
  int world_size = 1;
};

/// What the rest of the engine may know about a model.
struct ModelInfo {
  std::string architecture;  // "LlamaForCausalLM"
  int64_t vocab_size = 0;    // of the logits (may exceed the tokenizer's)
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t hidden_size = 0;
  int64_t max_model_len = 0;  // derived from the config, rope scaling included
  int32_t num_kv_groups = 1;  // block tables that a sequence needs
  device::DType kv_dtype = device::DType::kBF16;
  bool has_kv_scales = false;  // does the checkpoint scale K and V for a cache of one byte?
  std::string dtype;           // "bfloat16", ...
  std::string weight_format;   // "BF16", "Q4_1", ... of most of the linear layers
  std::string quantization;    // "gptq", "int8", ...; empty: none
  size_t weight_bytes = 0;     // packed, as resident
  double packing_s = 0;        // wall time of packing them: reading the mapped file included
  std::string weight_hash;     // part of a block's identity; of what and some of the values
};

/// What the bytes of a KV block mean. Blocks may be exchanged (persisted, offloaded, sent) only
/// between models whose identities are equal; its content is named by the block's hash.
struct BlockIdentity {
  std::string weight_hash;  // ModelInfo::weight_hash
  device::DType dtype = device::DType::kBF16;
  std::string layout;  // order of a block's bytes, shape included
  bool operator==(const BlockIdentity&) const = default;
};

/// A decoder with its weights. Knows tensors and layers; no scheduler, no text. Owned and called by
/// the engine thread only.
class Model {
 public:
  virtual ~Model() = default;

  /// Reads config and weights of `checkpoint`, packs them. Errors name file and tensor.
  static Result<std::unique_ptr<Model>> load(const checkpoint::Checkpoint& checkpoint,
                                             const ModelOptions& options,
                                             const kernels::KernelContext& ctx);

  virtual const ModelInfo& info() const = 0;

  /// Bytes of KV cache per block of `block_size` tokens, all layers.
  virtual size_t kv_block_bytes(int64_t block_size) const = 0;
  /// Reserves the KV pool (address space; pages are touched when first written).
  virtual Status allocate_kv(int64_t num_blocks, int64_t block_size) = 0;
  /// Of the blocks that `allocate_kv` reserved.
  virtual BlockIdentity block_identity() const { return {}; }
  /// Copies a block's K and V of all layers, kv_block_bytes(block_size) bytes, out of the pool or
  /// back into any block of it. Errors: no such block, wrong size, a model without a KV pool.
  virtual Status gather_block(int32_t block, std::span<std::byte> out) const;
  virtual Status restore_block(int32_t block, std::span<const std::byte> bytes);
  /// Activations and kernel scratch for batches up to these sizes, bytes; part of the memory plan.
  virtual size_t activation_bytes(int64_t max_num_batched_tokens, int64_t max_num_seqs,
                                  int64_t max_logits_rows, int64_t max_model_len,
                                  int num_threads) const = 0;
  /// Takes what `activation_bytes` computed. Call once, before `forward`.
  virtual Status reserve(const kernels::KernelContext& ctx, int64_t max_num_batched_tokens,
                         int64_t max_num_seqs, int64_t max_logits_rows, int64_t max_model_len) = 0;

  /// Runs one step. A row's logits depend on its own sequence alone (promise P1).
  ///   logits   [batch.num_whole_rows(), vocab_size] f32, all written: logits_rows without those
  ///            marked in only_largest
  ///   largest  [batch.only_largest.size()] written where marked, as scan_logits of the row
  virtual Status forward(const kernels::KernelContext& ctx, const ForwardBatch& batch,
                         std::span<float> logits, std::span<kernels::LogitsScan> largest) = 0;
};

}  // namespace octavo::model
