#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace octavo::checkpoint {

/// Opens a directory in Hugging Face layout: config.json, generation_config.json if there is one,
/// and, with weights, model.safetensors.index.json and its shards, or model.safetensors, or every
/// *.safetensors of the directory.
Result<std::unique_ptr<Checkpoint>> open_hf(const std::string& path, bool with_weights);

}  // namespace octavo::checkpoint
