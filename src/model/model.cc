#include "model/model.h"

#include <fmt/format.h>

#include "model/decoder.h"
#include "model/models.h"
#include "model/weights/kv_scales.h"

namespace octavo::model {
namespace {

std::unique_ptr<WeightSource> make_source(const checkpoint::Checkpoint& checkpoint,
                                          const ModelOptions& options, const DTypePlan& dtype,
                                          const Quantization& quantization,
                                          const kernels::KernelContext& ctx) {
  const bool is_f32 = dtype.dtype == device::DType::kF32;
  std::unique_ptr<WeightSource> source =
      checkpoint.has_weights()
          ? make_checkpoint_source(checkpoint)
          : make_dummy_source(options.seed,
                              is_f32 ? kernels::WeightFormat::kF32 : kernels::WeightFormat::kBF16,
                              ctx.pool);
  if (quantization.is_packed() && checkpoint.has_weights()) {
    source = make_packed_source(std::move(source), quantization, checkpoint, ctx.pool);
  }
  if (quantization.is_online()) {
    source = make_online_source(std::move(source), quantization, ctx.pool);
  }
  return source;
}

}  // namespace

Status Model::gather_block(int32_t, std::span<std::byte>) const {
  return Error{Code::kUnsupported, "this model's KV blocks cannot be read"};
}

Status Model::restore_block(int32_t, std::span<const std::byte>) {
  return Error{Code::kUnsupported, "this model's KV blocks cannot be written"};
}

Result<std::unique_ptr<Model>> Model::load(const checkpoint::Checkpoint& checkpoint,
                                           const ModelOptions& options,
                                           const kernels::KernelContext& ctx) {
  if (options.world_size != 1 || options.rank != 0) {
    return Error{Code::kUnsupported,
                 fmt::format("rank {} of {}: octavo runs a model on one rank; set "
                             "--tensor-parallel-size and --pipeline-parallel-size to 1",
                             options.rank, options.world_size)};
  }
  OCTAVO_TRY(const Architecture* architecture, find_architecture(checkpoint));
  OCTAVO_TRY(const DecoderConfig config, read_decoder_config(checkpoint, *architecture));
  OCTAVO_TRY(const Quantization quantization,
             plan_quantization(options.quantization, options.dtype, checkpoint));
  OCTAVO_TRY(DTypePlan dtype, plan_dtype(options.dtype, config, checkpoint, quantization));
  OCTAVO_TRY(dtype.kv_dtype, plan_kv_dtype(options.kv_dtype, quantization, checkpoint));
  if (!checkpoint.has_weights() && !dtype.convert_to && dtype.dtype == device::DType::kF16) {
    dtype.convert_to = kernels::WeightFormat::kF16;
  }
  const std::unique_ptr<WeightSource> source =
      make_source(checkpoint, options, dtype, quantization, ctx);
  OCTAVO_TRY(std::vector<KvScales> kv_scales,
             take_kv_scales(dtype.kv_dtype.value_or(dtype.dtype), checkpoint, *architecture,
                            config.num_layers, *source));
  auto communicator = std::make_unique<SingleRank>();
  WeightLoader loader(
      {*architecture, config, dtype, *source, checkpoint.is_gguf(), communicator.get()}, ctx);
  OCTAVO_TRY(std::unique_ptr<Decoder> decoder,
             Decoder::create(config, dtype, loader, *source, std::move(communicator)));
  decoder->set_quantization(quantization.name());
  decoder->set_kv_scales(std::move(kv_scales));
  return std::unique_ptr<Model>(std::move(decoder));
}

}  // namespace octavo::model
