#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/config_reader.h"
#include "model/decoder_config.h"

namespace octavo::model {

/// "<directory>/config.json", or the GGUF file: for messages.
std::string config_file_of(const checkpoint::Checkpoint& checkpoint);
ConfigReader hf_reader(const checkpoint::Checkpoint& checkpoint);

/// The values that nearly every config.json of a decoder spells alike: sizes, norm, rope in the old
/// spelling (`rope_theta`, `rope_scaling`) and the new (`rope_parameters`), dtype (`torch_dtype`,
/// `dtype`), multipliers, windows by `layer_types`. What differs between families (biases, qk-norm)
/// is left to them.
Result<DecoderConfig> read_hf_common(const checkpoint::Checkpoint& checkpoint,
                                     std::string_view architecture);
/// The same from GGUF metadata `<gguf_name>.*` and, for biases and a tied head, the tensors
/// present.
Result<DecoderConfig> read_gguf_common(const checkpoint::Checkpoint& checkpoint,
                                       std::string_view architecture, std::string_view gguf_name);

/// Windows of the layers that `layer_types` calls "sliding_attention", as vLLM's Llama reads them.
Status read_layer_windows(const ConfigReader& reader, DecoderConfig& config);
/// Windows as the qwen families declare them: only with `use_sliding_window`, in the layers that
/// `layer_types` names, or from `max_window_layers` on.
Status read_qwen_windows(const ConfigReader& reader, DecoderConfig& config);

/// Rope part of a config.json. Writes config.rope and config.partial_rotary_factor.
Status read_hf_rope(const ConfigReader& reader, int64_t max_position_embeddings,
                    DecoderConfig& config);
/// Rope part of GGUF metadata, and its tensor `rope_freqs.weight`.
Status read_gguf_rope(const checkpoint::Checkpoint& checkpoint, const ConfigReader& reader,
                      DecoderConfig& config);

/// Longest context in tokens: the trained length, times the factor of linear and yarn scaling (yarn
/// counts from the original length); llama3 scaling is already in it. Source: vLLM
/// `_get_and_verify_max_len`. 0 when the product leaves the range of a position.
int64_t scaled_max_model_len(const RopeConfig& rope, int64_t max_position_embeddings);

}  // namespace octavo::model
