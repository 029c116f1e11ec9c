#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "tokenizer/tokenizer.h"

// What `octavo serve` takes from a model's folder beside weights and tokenizer.

namespace octavo::cli {

/// Without a model, fills in the path of the default one in the cache folder (OCTAVO_CACHE, else
/// ~/.cache/octavo) and, unless a name was chosen, the name it is served under. Error kNotFound
/// says how to get the default model.
Status resolve_model(config::ModelConfig& config);

/// The files that a start with this configuration reads: the GGUF file, or the regular files of the
/// model's folder. Error: there is no such model.
Result<std::vector<std::string>> list_model_files(config::Config config);

/// Source of the chat template: `--chat-template` (a file or a one-line template), else
/// chat_template.jinja, else "chat_template" of tokenizer_config.json (text, or the entry named
/// "default" of a list), else GGUF's tokenizer.chat_template. nullopt: the model has none.
Result<std::optional<std::string>> find_chat_template(const checkpoint::Checkpoint& checkpoint,
                                                      const std::string& option);

/// Sampling defaults as JSON: generation_config.json (unless `--generation-config vllm`) under
/// `--override-generation-config`. Keys: those of a request's sampling fields, and
/// "stop_token_ids": end-of-sequence ids beyond the tokenizer's own.
Result<std::string> default_sampling_json(const checkpoint::Checkpoint& checkpoint,
                                          const config::ModelConfig& config,
                                          const tokenizer::Tokenizer& tokenizer);

/// The revision of a model that lies in a hub's cache folder, "models--X/snapshots/REVISION" with
/// or without a file behind it, directly or by a link; empty elsewhere.
std::string revision_of(const std::string& model_path);

/// The digest of the container image we run in, as whoever built or started it left it: the
/// variable OCTAVO_IMAGE_DIGEST, else the first line of /etc/octavo/image-digest; empty: not known.
std::string image_digest();

}  // namespace octavo::cli
