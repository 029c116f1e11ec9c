#include "cli/load_model.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/log.h"
#include "device/memory.h"
#include "device/roofs.h"
#include "device/thread_plan.h"
#include "device/thread_pool.h"
#include "engine/engine.h"
#include "kernels/dispatch.h"

namespace octavo::cli {
namespace {

using log::Source;

Result<model::DTypeChoice> dtype_of(const std::string& name) {
  if (name == "auto") return model::DTypeChoice::kAuto;
  if (name == "bfloat16") return model::DTypeChoice::kBFloat16;
  if (name == "half" || name == "float16") return model::DTypeChoice::kFloat16;
  if (name == "float" || name == "float32") return model::DTypeChoice::kFloat32;
  return Error{Code::kInvalidArgument,
               "--dtype " + name + " is not one of auto, half, float16, bfloat16, float, float32"};
}

/// `--kv-cache-dtype`; nullopt: what --dtype gives.
Result<std::optional<device::DType>> kv_dtype_of(const std::string& name) {
  using device::DType;
  if (name == "auto") return std::optional<DType>();
  if (name == "fp8") return std::optional(DType::kE4M3);
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kE4M3, DType::kE5M2}) {
    if (name == device::name_of(dtype)) return std::optional(dtype);
  }
  return Error{Code::kInvalidArgument,
               "--kv-cache-dtype " + name +
                   " is not one of auto, float16, bfloat16, fp8, fp8_e4m3, fp8_e5m2"};
}

/// Reads for some 10 ms on all threads and says how fast: every decoded token reads all weights, so
/// this bounds the rate of one stream.
void check_bandwidth(device::ThreadPool& pool, const device::ThreadPlan& threads,
                     size_t weight_bytes) {
  constexpr size_t kReadBytes = size_t{32} << 20;
  constexpr double kSlowGbPerThread = 1.0;  // a tenth of what a server's core usually gets
  const auto buffer = device::Buffer::create(kReadBytes, true);
  if (!buffer.ok()) return;
  std::memset(buffer->data(), 1, kReadBytes);
  const double gb_s = device::measure_read(pool, buffer->data(), kReadBytes, 2);
  log::info(Source::kEngineCore,
            "Self-check: {} threads ({}) read {:.1f} GB/s; {:.2f} GB of weights",
            pool.num_threads(), device::describe_binding(threads), gb_s,
            static_cast<double>(weight_bytes) / 1e9);
  if (gb_s >= kSlowGbPerThread * pool.num_threads()) return;
  log::warning(Source::kEngineCore,
               "This machine reads memory at {:.1f} GB/s only: busy neighbours or a CPU limit? One "
               "stream cannot decode faster than {:.1f} tokens/s",
               gb_s, gb_s * 1e9 / static_cast<double>(std::max<size_t>(weight_bytes, 1)));
}

}  // namespace

Result<checkpoint::LoadFormat> load_format_of(const std::string& name) {
  if (name == "auto") return checkpoint::LoadFormat::kAuto;
  if (name == "safetensors") return checkpoint::LoadFormat::kSafetensors;
  if (name == "gguf") return checkpoint::LoadFormat::kGguf;
  if (name == "dummy") return checkpoint::LoadFormat::kDummy;
  return Error{Code::kInvalidArgument,
               "--load-format " + name + " is not one of auto, safetensors, gguf, dummy"};
}

Result<std::unique_ptr<model::Model>> load_model(const checkpoint::Checkpoint& checkpoint,
                                                 const config::EngineConfig& config, Clock& clock) {
  const double start_s = clock.monotonic_s();
  log::info(Source::kEngineCore, "Starting to load model {}...", checkpoint.path());
  OCTAVO_TRY(const device::ThreadPlan threads, engine::Engine::thread_plan(config));
  device::ThreadPool pool(threads);
  // Weights lie on the NUMA node of the threads that write them.
  const device::CallerBinding binding(pool);
  device::Workspace workspace;
  model::ModelOptions options;
  OCTAVO_TRY(options.dtype, dtype_of(config.model.dtype));
  OCTAVO_TRY(options.kv_dtype, kv_dtype_of(config.cache.kv_cache_dtype));
  options.quantization = config.model.quantization;
  options.seed = static_cast<uint64_t>(config.model.seed);
  OCTAVO_TRY(auto model, model::Model::load(checkpoint, options, {pool, workspace}));
  checkpoint.drop_pages();
  log::info(Source::kEngineCore, "Loading weights took {:.2f} seconds",
            clock.monotonic_s() - start_s);
  log::info(Source::kEngineCore, "Packing {:.2f} GB of them took {:.2f} seconds ({:.1f} GB/s)",
            static_cast<double>(model->info().weight_bytes) / 1e9, model->info().packing_s,
            static_cast<double>(model->info().weight_bytes) / 1e9 /
                std::max(model->info().packing_s, 1e-6));
  log::info(Source::kEngineCore, "Resolved architecture: {}", model->info().architecture);
  if (!model->info().quantization.empty()) {
    log::info(Source::kEngineCore, "Quantization: {}; linear layers as {}",
              model->info().quantization, model->info().weight_format);
  }
  if (device::is_fp8(model->info().kv_dtype)) {
    log::info(
        Source::kEngineCore,
        "Using {} data type to store kv cache: half the memory of bfloat16, but less precise; "
        "{}",
        device::name_of(model->info().kv_dtype),
        model->info().has_kv_scales ? "scaling factors are those of the checkpoint"
                                    : "there are no scaling factors");
  }
  log::info(Source::kEngineCore, "Kernels: {}; {} threads", kernels::describe_kernels(),
            pool.num_threads());
  check_bandwidth(pool, threads, model->info().weight_bytes);
  return model;
}

std::string first_served_name(const config::Config& config) {
  const auto& names = config.engine.model.served_model_name;
  return names.empty() ? config.engine.model.model : names.front();
}

}  // namespace octavo::cli
