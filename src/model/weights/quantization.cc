#include "model/weights/quantization.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "model/architectures/common.h"

// Source of the keys: the config classes of AutoGPTQ and GPTQModel (gptq), AutoAWQ (awq),
// compressed-tensors' QuantizationConfig, transformers' FineGrainedFP8Config and vLLM's Fp8Config
// (fp8).

namespace octavo::model {
namespace {

struct Method {
  QuantMethod method;
  std::string_view name;   // in config.json, and of the flag
  std::string_view alias;  // a second spelling of the flag: vLLM's name of a kernel for it
};

constexpr auto kOwnMethods = std::to_array<Method>({
    {QuantMethod::kAwq, "awq", "awq_marlin"},
    {QuantMethod::kCompressedTensors, "compressed-tensors", "compressed_tensors"},
    {QuantMethod::kFp8, "fp8", "fp8"},
    {QuantMethod::kGptq, "gptq", "gptq_marlin"},
});
constexpr auto kOnlineMethods = std::to_array<Method>({
    {QuantMethod::kOnlineFp8, "fp8", "fp8"},
    {QuantMethod::kOnlineInt8, "int8", "int8"},
    {QuantMethod::kOnlineQ4, "q4", "q4"},
});

std::string lower(std::string_view text) {
  std::string result(text.substr(0, 64));
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  }
  return result;
}

template <class Methods>
std::string names_of(const Methods& methods) {
  std::string names;
  for (const Method& row : methods) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

template <class Methods>
const Method* find_method(const Methods& methods, std::string_view name) {
  const auto found = std::ranges::find_if(
      methods, [&](const Method& row) { return row.name == name || row.alias == name; });
  return found == methods.end() ? nullptr : &*found;
}

Error bad(const ConfigReader& reader, std::string_view key, std::string_view what) {
  return reader.error(Code::kUnsupported, key, what);
}

/// `key`, when it is there, must be one of `allowed`.
Status must_be(const ConfigReader& reader, std::string_view key, std::string_view otherwise,
               std::initializer_list<std::string_view> allowed) {
  OCTAVO_TRY(const std::string value, reader.get_string(key, std::string(otherwise)));
  if (std::ranges::find(allowed, lower(value)) != allowed.end()) return {};
  std::string list;
  for (const std::string_view name : allowed) {
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", name);
  }
  return bad(reader, key, fmt::format("is \"{}\"; octavo reads {}", value.substr(0, 64), list));
}

/// `key` must be absent, null or empty.
Status must_be_empty(const ConfigReader& reader, const checkpoint::Metadata& object,
                     std::string_view key, std::string_view what) {
  const checkpoint::Metadata* value = object.find(key);
  if (value == nullptr) return {};
  if (const auto* list = std::get_if<std::shared_ptr<checkpoint::MetadataArray>>(&value->value())) {
    if ((*list)->empty()) return {};
  }
  if (const auto* map = std::get_if<std::shared_ptr<checkpoint::MetadataObject>>(&value->value())) {
    if ((*map)->empty()) return {};
  }
  return bad(reader, key, what);
}

/// Group sizes are read from the tensors; a size that no kernel takes is told here, once.
Status check_group_size(const ConfigReader& reader) {
  OCTAVO_TRY(const int64_t size, reader.get_int("group_size", -1));
  if (size == -1 || (size > 0 && size % 32 == 0)) return {};
  return bad(reader, "group_size",
             fmt::format("is {}; octavo runs multiples of 32, and -1 for one group a row", size));
}

Status read_gptq(const ConfigReader& reader, const checkpoint::Metadata& object,
                 Quantization& plan) {
  OCTAVO_TRY(plan.bits, reader.require_int("bits"));
  if (plan.bits != 4 && plan.bits != 8) {
    return bad(reader, "bits", fmt::format("is {}; octavo reads gptq of 4 and 8 bits", plan.bits));
  }
  OCTAVO_TRY(check_group_size(reader));
  OCTAVO_TRY(must_be(reader, "checkpoint_format", "gptq", {"gptq", "gptq_v2"}));
  OCTAVO_TRY(const std::string format, reader.get_string("checkpoint_format", "gptq"));
  plan.zeros_minus_one = lower(format) == "gptq";
  return must_be_empty(reader, object, "dynamic",
                       "gives single modules other settings, which octavo does not read");
}

Status read_awq(const ConfigReader& reader, Quantization& plan) {
  OCTAVO_TRY(const int64_t old_spelling, reader.get_int("w_bit", 4));
  OCTAVO_TRY(plan.bits, reader.get_int("bits", old_spelling));
  if (plan.bits != 4) {
    return bad(reader, "bits", fmt::format("is {}; octavo reads awq of 4 bits", plan.bits));
  }
  OCTAVO_TRY(check_group_size(reader));
  return must_be(reader, "version", "gemm", {"gemm"});
}

/// Rows and columns that share a scale.
Status read_blocks(const ConfigReader& reader, const checkpoint::Metadata& object,
                   std::string_view key, Quantization& plan) {
  const checkpoint::Metadata* block = object.find(key);
  if (block == nullptr) return {};
  const auto sizes = block->as_ints();
  if (!sizes || sizes->size() != 2 || (*sizes)[0] < 1 || (*sizes)[1] < 32 ||
      (*sizes)[1] % 32 != 0 || std::ranges::max(*sizes) > (1 << 20)) {
    return bad(reader, key, "is no pair of rows and columns, the latter a multiple of 32");
  }
  plan.block_rows = (*sizes)[0];
  plan.block_cols = (*sizes)[1];
  return {};
}

Status read_fp8(const ConfigReader& reader, const checkpoint::Metadata& object,
                Quantization& plan) {
  OCTAVO_TRY(must_be(reader, "activation_scheme", "dynamic", {"dynamic", "static"}));
  OCTAVO_TRY(must_be(reader, "fmt", "e4m3", {"e4m3"}));
  return read_blocks(reader, object, "weight_block_size", plan);
}

Status tensor_format_must_be_known(const ConfigReader& reader, std::string_view otherwise) {
  return must_be(
      reader, "format", otherwise,
      {"pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "dense"});
}

/// One entry of config_groups.
Status read_group(const ConfigReader& group, const checkpoint::Metadata& object,
                  std::string_view outer_format, Quantization& plan) {
  OCTAVO_TRY(tensor_format_must_be_known(group, outer_format));
  OCTAVO_TRY(const std::optional<ConfigReader> weights, group.get_object("weights"));
  if (!weights) return {};
  OCTAVO_TRY(must_be(*weights, "type", "int", {"int", "float"}));
  OCTAVO_TRY(const std::string type, weights->get_string("type", "int"));
  OCTAVO_TRY(const int64_t bits, weights->get_int("num_bits", 8));
  if (bits != 8 && (bits != 4 || lower(type) != "int")) {
    return bad(*weights, "num_bits",
               fmt::format("is {} of type {}; octavo reads 4 and 8 bits of int, 8 of float", bits,
                           lower(type)));
  }
  plan.bits = bits;
  OCTAVO_TRY(must_be(*weights, "strategy", "tensor", {"tensor", "channel", "group", "block"}));
  OCTAVO_TRY(read_blocks(*weights, *object.find("weights"), "block_structure", plan));
  return check_group_size(*weights);
}

Status read_compressed_tensors(const ConfigReader& reader, const checkpoint::Metadata& object,
                               Quantization& plan) {
  OCTAVO_TRY(const std::string format, reader.get_string("format", "dense"));
  if (lower(format) != "mixed-precision") {  // each group then has a format of its own
    OCTAVO_TRY(tensor_format_must_be_known(reader, "dense"));
  }
  OCTAVO_TRY(must_be(reader, "quantization_status", "compressed", {"compressed"}));
  OCTAVO_TRY(must_be_empty(reader, object, "transform_config",
                           "turns weights or activations, which octavo does not do"));
  OCTAVO_TRY(const std::optional<ConfigReader> sparsity, reader.get_object("sparsity_config"));
  if (sparsity) {
    OCTAVO_TRY(must_be(*sparsity, "format", "dense", {"dense"}));
  }
  OCTAVO_TRY(const std::optional<ConfigReader> groups, reader.get_object("config_groups"));
  const checkpoint::Metadata* all = object.find("config_groups");
  if (!groups || !all->is_object()) return {};
  const auto& map = *std::get<std::shared_ptr<checkpoint::MetadataObject>>(all->value());
  bool is_first = true;
  for (const auto& [name, value] : map) {
    if (!value.is_object()) continue;  // a list of targets: a preset by name
    OCTAVO_TRY(const std::optional<ConfigReader> group, groups->get_object(name));
    const std::string outer = lower(format) == "mixed-precision" ? "dense" : lower(format);
    if (!group) continue;
    Quantization one = plan;
    OCTAVO_TRY(read_group(*group, value, outer, one));
    if (!is_first && one.bits != plan.bits) one.bits = 0;
    plan = one;
    is_first = false;
  }
  return {};
}

/// The object that describes the method, and the file it lies in.
struct OwnConfig {
  checkpoint::Metadata object;
  std::string file;
  std::string key;
  std::string method;  // empty: it does not say
};

/// `quantization_config` of config.json (`compression_config` in files of llm-compressor's
/// beginnings), or for `flag` the file that AutoGPTQ and AutoAWQ wrote before there was that key.
Result<std::optional<OwnConfig>> find_own_config(std::string_view flag,
                                                 const checkpoint::Checkpoint& checkpoint) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    const checkpoint::Metadata* object = checkpoint.config().find(key);
    if (object == nullptr) continue;
    const std::string file = config_file_of(checkpoint);
    if (!object->is_object()) {
      return ConfigReader(checkpoint.config(), file)
          .error(Code::kInvalidArgument, key, "is no object");
    }
    const ConfigReader reader(*object, file);
    OCTAVO_TRY(const std::string method, reader.get_string("quant_method", ""));
    return std::optional(OwnConfig{*object, file, key, lower(method)});
  }
  const Method* wanted = find_method(kOwnMethods, flag);
  if (wanted == nullptr) return std::optional<OwnConfig>();
  for (const char* name : {"quantize_config.json", "quant_config.json"}) {
    OCTAVO_TRY(const std::optional<std::string> text, checkpoint.read_file(name));
    if (!text) continue;
    const std::string file = fmt::format("{}/{}", checkpoint.path(), name);
    OCTAVO_TRY(checkpoint::Metadata object, checkpoint::parse_json_metadata(*text, file));
    if (!object.is_object()) return Error{Code::kInvalidArgument, file + ": is no JSON object"};
    return std::optional(OwnConfig{object, file, "", std::string(wanted->name)});
  }
  return std::optional<OwnConfig>();
}

Error differs(std::string_view flag, std::string_view what) {
  return Error{Code::kInvalidArgument, fmt::format("--quantization {}: {}", flag, what)};
}

Result<Quantization> plan_own(std::string_view flag, DTypeChoice dtype, const OwnConfig& own) {
  const ConfigReader reader(own.object, own.key.empty() ? own.file : own.file + ": " + own.key);
  if (own.method.empty()) {
    return reader.error(Code::kInvalidArgument, "quant_method",
                        "is missing; octavo reads " + names_of(kOwnMethods));
  }
  const Method* method = find_method(kOwnMethods, own.method);
  if (method == nullptr) {
    return bad(reader, "quant_method",
               fmt::format("is \"{}\"; octavo reads {}", own.method, names_of(kOwnMethods)));
  }
  if (!flag.empty() && flag != method->name && flag != method->alias) {
    return differs(flag, fmt::format("{} says that the checkpoint is quantised with {}", own.file,
                                     method->name));
  }
  if (dtype == DTypeChoice::kFloat32) {
    return Error{Code::kInvalidArgument,
                 fmt::format("--dtype float32: {} says that the checkpoint is quantised with {}, "
                             "which runs in bfloat16 and float16",
                             own.file, method->name)};
  }
  Quantization plan{.method = method->method};
  switch (plan.method) {
    case QuantMethod::kGptq:
      OCTAVO_TRY(read_gptq(reader, own.object, plan));
      break;
    case QuantMethod::kAwq:
      OCTAVO_TRY(read_awq(reader, plan));
      break;
    case QuantMethod::kFp8:
      OCTAVO_TRY(read_fp8(reader, own.object, plan));
      break;
    default:
      OCTAVO_TRY(read_compressed_tensors(reader, own.object, plan));
  }
  return plan;
}

}  // namespace

std::string_view Quantization::name() const {
  if (method == QuantMethod::kGguf) return "gguf";
  for (const Method& row : kOwnMethods) {
    if (row.method == method) return row.name;
  }
  for (const Method& row : kOnlineMethods) {
    if (row.method == method) return row.name;
  }
  return "";
}

Result<Quantization> plan_quantization(std::string_view flag_text, DTypeChoice dtype,
                                       const checkpoint::Checkpoint& checkpoint) {
  const std::string flag = lower(flag_text);
  if (checkpoint.is_gguf()) {
    if (flag.empty() || flag == "gguf") return Quantization{.method = QuantMethod::kGguf};
    return differs(flag, fmt::format("{} is a GGUF file, whose method is gguf", checkpoint.path()));
  }
  OCTAVO_TRY(const std::optional<OwnConfig> own, find_own_config(flag, checkpoint));
  if (own) return plan_own(flag, dtype, *own);
  if (flag.empty()) return Quantization{};
  if (const Method* online = find_method(kOnlineMethods, flag)) {
    return Quantization{.method = online->method};
  }
  return differs(flag, fmt::format("{} {}; an unquantised checkpoint can be packed with {}",
                                   config_file_of(checkpoint),
                                   flag == "gguf" || find_method(kOwnMethods, flag) != nullptr
                                       ? "has no quantization_config"
                                       : fmt::format("names no such method (octavo knows {}, gguf)",
                                                     names_of(kOwnMethods)),
                                   names_of(kOnlineMethods)));
}

}  // namespace octavo::model
