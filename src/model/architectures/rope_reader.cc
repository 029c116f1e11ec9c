#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "model/architectures/common.h"

namespace octavo::model {
namespace {

Result<RopeKind> parse_rope_kind(const ConfigReader& reader, std::string_view key,
                                 const std::string& name) {
  if (name == "default" || name == "none" || name.empty()) return RopeKind::kDefault;
  if (name == "linear") return RopeKind::kLinear;
  if (name == "llama3") return RopeKind::kLlama3;
  if (name == "yarn") return RopeKind::kYarn;
  return reader.error(
      Code::kUnsupported, key,
      fmt::format("is \"{}\"; octavo runs default, linear, llama3 and yarn", name.substr(0, 64)));
}

/// `original_max_position_embeddings` stands in the scaling object, in older files beside it, or
/// means the trained length.
Result<int64_t> original_length(const ConfigReader& scaling, const ConfigReader& outer,
                                int64_t max_position_embeddings) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  OCTAVO_TRY(const int64_t beside, outer.get_int(kKey, max_position_embeddings));
  return scaling.get_int(kKey, beside);
}

Status read_llama3(const ConfigReader& scaling, RopeConfig& rope) {
  OCTAVO_TRY(rope.factor, scaling.require_double("factor"));
  OCTAVO_TRY(rope.low_freq_factor, scaling.require_double("low_freq_factor"));
  OCTAVO_TRY(rope.high_freq_factor, scaling.require_double("high_freq_factor"));
  return {};
}

Status read_yarn(const ConfigReader& scaling, int64_t max_position_embeddings, RopeConfig& rope) {
  // Without a factor it is the ratio of the two lengths (as transformers).
  const double ratio =
      rope.original_max_position_embeddings > 0
          ? double(max_position_embeddings) / double(rope.original_max_position_embeddings)
          : 1.0;
  OCTAVO_TRY(rope.factor, scaling.get_double("factor", ratio));
  if (scaling.has("attention_factor")) {
    OCTAVO_TRY(rope.attention_factor, scaling.require_double("attention_factor"));
  }
  OCTAVO_TRY(rope.beta_fast, scaling.get_double("beta_fast", 32.0));
  OCTAVO_TRY(rope.beta_slow, scaling.get_double("beta_slow", 1.0));
  OCTAVO_TRY(rope.mscale, scaling.get_double("mscale", 0.0));
  OCTAVO_TRY(rope.mscale_all_dim, scaling.get_double("mscale_all_dim", 0.0));
  OCTAVO_TRY(rope.truncate, scaling.get_bool("truncate", true));
  return {};
}

Status read_scaling(const ConfigReader& scaling, const ConfigReader& outer,
                    int64_t max_position_embeddings, DecoderConfig& config) {
  RopeConfig& rope = config.rope;
  OCTAVO_TRY(rope.theta, scaling.get_double("rope_theta", rope.theta));
  OCTAVO_TRY(config.partial_rotary_factor,
             scaling.get_double("partial_rotary_factor", config.partial_rotary_factor));
  OCTAVO_TRY(const std::string old_spelling, scaling.get_string("type", "default"));
  OCTAVO_TRY(const std::string name, scaling.get_string("rope_type", old_spelling));
  OCTAVO_TRY(rope.kind, parse_rope_kind(scaling, "rope_type", name));
  OCTAVO_TRY(rope.original_max_position_embeddings,
             original_length(scaling, outer, max_position_embeddings));
  switch (rope.kind) {
    case RopeKind::kDefault:
      return {};
    case RopeKind::kLinear: {
      OCTAVO_TRY(rope.factor, scaling.require_double("factor"));
      return {};
    }
    case RopeKind::kLlama3:
      return read_llama3(scaling, rope);
    case RopeKind::kYarn:
      return read_yarn(scaling, max_position_embeddings, rope);
  }
  return {};
}

/// llama3 scaling as GGUF carries it: one divisor per frequency.
Status read_freq_factors(const checkpoint::Checkpoint& checkpoint, RopeConfig& rope) {
  const checkpoint::Tensor* tensor = checkpoint.find("rope_freqs.weight");
  if (tensor == nullptr) return {};
  if (tensor->type != checkpoint::TensorType::kF32 || tensor->shape.size() != 1) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: tensor rope_freqs.weight is not a vector of F32", tensor->file)};
  }
  rope.freq_factors.resize(tensor->data.size() / sizeof(float));
  std::memcpy(rope.freq_factors.data(), tensor->data.data(),
              rope.freq_factors.size() * sizeof(float));
  return {};
}

}  // namespace

Status read_hf_rope(const ConfigReader& reader, int64_t max_position_embeddings,
                    DecoderConfig& config) {
  OCTAVO_TRY(config.rope.theta, reader.get_double("rope_theta", 10000.0));
  OCTAVO_TRY(config.partial_rotary_factor, reader.get_double("partial_rotary_factor", 1.0));
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    OCTAVO_TRY(const std::optional<ConfigReader> scaling, reader.get_object(key));
    if (!scaling) continue;
    if (scaling->has("full_attention") || scaling->has("sliding_attention")) {
      return reader.error(Code::kUnsupported, key,
                          "differs between kinds of layers, which octavo cannot run yet");
    }
    return read_scaling(*scaling, reader, max_position_embeddings, config);
  }
  return {};
}

Status read_gguf_rope(const checkpoint::Checkpoint& checkpoint, const ConfigReader& reader,
                      DecoderConfig& config) {
  RopeConfig& rope = config.rope;
  OCTAVO_TRY(rope.theta, reader.get_double("rope.freq_base", 10000.0));
  OCTAVO_TRY(const int64_t rotary_dim, reader.get_int("rope.dimension_count", config.head_dim));
  if (config.head_dim > 0) {
    config.partial_rotary_factor = double(rotary_dim) / double(config.head_dim);
  }
  OCTAVO_TRY(const std::string name, reader.get_string("rope.scaling.type", "none"));
  OCTAVO_TRY(rope.kind, parse_rope_kind(reader, "rope.scaling.type", name));
  OCTAVO_TRY(const double old_spelling, reader.get_double("rope.scale_linear", 1.0));
  OCTAVO_TRY(rope.factor, reader.get_double("rope.scaling.factor", old_spelling));
  // Files older than rope.scaling.type carry only the factor of linear scaling.
  if (!reader.has("rope.scaling.type") && rope.factor != 1.0) rope.kind = RopeKind::kLinear;
  OCTAVO_TRY(rope.original_max_position_embeddings,
             reader.get_int("rope.scaling.original_context_length", config.max_model_len));
  OCTAVO_TRY(rope.beta_fast, reader.get_double("rope.scaling.yarn_beta_fast", 32.0));
  OCTAVO_TRY(rope.beta_slow, reader.get_double("rope.scaling.yarn_beta_slow", 1.0));
  if (rope.kind == RopeKind::kYarn && reader.has("rope.scaling.attn_factor")) {
    // llama.cpp multiplies its attn_factor with the derived one.
    OCTAVO_TRY(const double extra, reader.require_double("rope.scaling.attn_factor"));
    const double derived = rope.factor > 1.0 ? 0.1 * std::log(rope.factor) + 1.0 : 1.0;
    rope.attention_factor = extra * derived;
  }
  return read_freq_factors(checkpoint, rope);
}

int64_t scaled_max_model_len(const RopeConfig& rope, int64_t max_position_embeddings) {
  double length = double(max_position_embeddings);
  if (rope.kind == RopeKind::kYarn) {
    length = double(rope.original_max_position_embeddings) * rope.factor;
  } else if (rope.kind == RopeKind::kLinear) {
    length *= rope.factor;
  }
  if (!(length >= 1.0) || !(length < 2147483648.0)) return 0;
  return int64_t(length);
}

}  // namespace octavo::model
