#include "model/weights/kv_scales.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "base/log.h"
#include "model/architectures/common.h"
#include "model/weights/dtype_plan.h"

// Sources: vLLM 0.32, which names of scales it reads (maybe_remap_kv_scale_name, Fp8Config) and
// what a kv_cache_scheme does (Attention, CompressedTensorsKVCacheMethod).

namespace octavo::model {
namespace {

/// Beyond these a score or its scale leaves the range of f32 sooner or later.
constexpr float kLeastScale = 0x1p-64f, kMostScale = 0x1p64f;

/// Names behind that of a layer's attention module: of llm-compressor, of vLLM's own module, of
/// ModelOpt, of AutoFP8, of a fused projection, and of one scale for both.
constexpr std::string_view kNamesOfK[] = {".k_scale",          ".attn.k_scale",
                                          ".k_proj.k_scale",   ".k_proj.output_scale",
                                          ".qkv_proj.k_scale", ".kv_scale"};
constexpr std::string_view kNamesOfV[] = {".v_scale",          ".attn.v_scale",
                                          ".v_proj.v_scale",   ".v_proj.output_scale",
                                          ".qkv_proj.v_scale", ".kv_scale"};

bool ends_with_any(std::string_view name, std::span<const std::string_view> ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

/// "model.layers.3.self_attn", from the name of its output product.
std::string attention_module(const Architecture& architecture, int64_t layer) {
  std::string_view pattern;
  for (const WeightName& row : architecture.weight_names) {
    if (row.target == Target::kOProj) pattern = row.hf.substr(0, row.hf.rfind('.'));
  }
  const size_t at = pattern.find("{}");
  if (at == std::string_view::npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, at), layer, pattern.substr(at + 2));
}

Error bad_scale(const checkpoint::Tensor& tensor, std::string_view what) {
  return Error{Code::kInvalidArgument,
               fmt::format("{}: tensor {} {} (--kv-cache-dtype bfloat16 needs no scales)",
                           tensor.file, tensor.name, what)};
}

/// The one of `names` that the checkpoint has; null: none.
Result<const checkpoint::Tensor*> find_scale(const checkpoint::Checkpoint& checkpoint,
                                             const std::string& module,
                                             std::span<const std::string_view> names) {
  const checkpoint::Tensor* found = nullptr;
  for (const std::string_view name : names) {
    const checkpoint::Tensor* const tensor = checkpoint.find(module + std::string(name));
    if (tensor == nullptr) continue;
    if (found != nullptr) {
      return bad_scale(*tensor, fmt::format("and {} give the same scale", found->name));
    }
    found = tensor;
  }
  return found;
}

Result<float> read_scale(const checkpoint::Tensor& tensor) {
  const std::optional<kernels::WeightFormat> format = format_of(tensor.type);
  if (!format || is_quantised(*format)) {
    return bad_scale(tensor, fmt::format("is stored as {}; a scale of the KV cache is F32, BF16 "
                                         "or F16",
                                         checkpoint::name_of(tensor.type)));
  }
  if (std::ranges::any_of(tensor.shape, [](int64_t size) { return size != 1; }) ||
      tensor.data.size() != kernels::row_bytes(*format, 1)) {
    return bad_scale(tensor, fmt::format("has shape [{}]; octavo reads one scale of the KV cache "
                                         "a layer, not one a head",
                                         fmt::join(tensor.shape, ", ")));
  }
  const SourceTensor source{tensor.data.data(), *format, {}};
  OCTAVO_TRY(const std::vector<float> values, to_f32(source, 1, tensor.name));
  if (!(values[0] >= kLeastScale && values[0] <= kMostScale)) {
    return bad_scale(tensor, fmt::format("is {}; a scale of the KV cache is a number above 0, "
                                         "from 2^-64 to 2^64",
                                         values[0]));
  }
  return values[0];
}

/// A layer's two; ones where it has none.
Result<KvScales> read_layer(const checkpoint::Checkpoint& checkpoint, const std::string& module,
                            WeightSource& source) {
  OCTAVO_TRY(const checkpoint::Tensor* k, find_scale(checkpoint, module, kNamesOfK));
  OCTAVO_TRY(const checkpoint::Tensor* v, find_scale(checkpoint, module, kNamesOfV));
  if (k == nullptr && v == nullptr) return KvScales{};
  if (k == nullptr || v == nullptr) {
    return bad_scale(k == nullptr ? *v : *k,
                     fmt::format("is a scale of the KV cache, but {} has none of its {}", module,
                                 k == nullptr ? "keys" : "values"));
  }
  KvScales scales;
  OCTAVO_TRY(scales.k, read_scale(*k));
  OCTAVO_TRY(scales.v, read_scale(*v));
  source.mark_taken(*k);
  source.mark_taken(*v);
  return scales;
}

/// Tensors of calibration that nothing here reads: scales of queries and probabilities (both are
/// multiplied in bf16), and zero points, which a symmetric scheme has too.
constexpr std::string_view kOtherNames[] = {
    ".q_scale",      ".q_proj.output_scale", ".prob_scale",  ".prob_output_scale",
    ".k_zero_point", ".v_zero_point",        ".q_zero_point"};

/// Marks the tensors whose names end so, and tells whether there are any.
bool pass_over(const checkpoint::Checkpoint& checkpoint, std::span<const std::string_view> ends,
               WeightSource& source) {
  bool any = false;
  for (const checkpoint::Tensor& tensor : checkpoint.tensors()) {
    if (!ends_with_any(tensor.name, ends)) continue;
    source.mark_taken(tensor);
    any = true;
  }
  return any;
}

/// The scheme's values are those of compressed-tensors' QuantizationArgs.
Status check_scheme(const ConfigReader& scheme) {
  OCTAVO_TRY(const std::string type, scheme.get_string("type", "int"));
  OCTAVO_TRY(const int64_t bits, scheme.get_int("num_bits", 8));
  OCTAVO_TRY(const bool is_symmetric, scheme.get_bool("symmetric", true));
  OCTAVO_TRY(const std::string strategy, scheme.get_string("strategy", "tensor"));
  const auto bad = [&](std::string_view key, const std::string& value, std::string_view wanted) {
    return scheme.error(Code::kUnsupported, key,
                        fmt::format("is {}; octavo runs KV caches of {} (--kv-cache-dtype bfloat16 "
                                    "needs no scheme)",
                                    value.substr(0, 64), wanted));
  };
  if (type != "float") return bad("type", type, "type float");
  if (bits != 8) return bad("num_bits", std::to_string(bits), "8 bits");
  if (!is_symmetric) return bad("symmetric", "false", "symmetric codes");
  if (strategy != "tensor") return bad("strategy", strategy, "strategy tensor, one scale a layer");
  return {};
}

}  // namespace

Result<std::optional<device::DType>> plan_kv_dtype(std::optional<device::DType> asked,
                                                   const Quantization& quantization,
                                                   const checkpoint::Checkpoint& checkpoint) {
  if (quantization.method != QuantMethod::kCompressedTensors) return asked;
  if (asked && !device::is_fp8(*asked)) return asked;
  for (const char* key : {"quantization_config", "compression_config"}) {
    OCTAVO_TRY(const std::optional<ConfigReader> config, hf_reader(checkpoint).get_object(key));
    if (!config) continue;
    OCTAVO_TRY(const std::optional<ConfigReader> scheme, config->get_object("kv_cache_scheme"));
    if (!scheme) return asked;
    OCTAVO_TRY(check_scheme(*scheme));
    return asked ? asked : device::DType::kE4M3;
  }
  return asked;
}

Result<std::vector<KvScales>> take_kv_scales(device::DType kv_dtype,
                                             const checkpoint::Checkpoint& checkpoint,
                                             const Architecture& architecture, int64_t num_layers,
                                             WeightSource& source) {
  std::vector<KvScales> scales;
  if (checkpoint.is_gguf() || !checkpoint.has_weights()) return scales;
  pass_over(checkpoint, kOtherNames, source);
  if (!device::is_fp8(kv_dtype)) {
    const bool of_k = pass_over(checkpoint, kNamesOfK, source);
    const bool of_v = pass_over(checkpoint, kNamesOfV, source);
    if (of_k || of_v) {
      log::info(log::Source::kEngineCore,
                "{}: scales of a KV cache are not used: one of {} needs none (--kv-cache-dtype "
                "fp8 does)",
                checkpoint.path(), device::name_of(kv_dtype));
    }
    return scales;
  }
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    OCTAVO_TRY(const KvScales one,
               read_layer(checkpoint, attention_module(architecture, layer), source));
    scales.push_back(one);
  }
  if (std::ranges::all_of(scales, [](const KvScales& one) { return one == KvScales{}; })) {
    scales.clear();
  }
  return scales;
}

}  // namespace octavo::model
