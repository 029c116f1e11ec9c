#pragma once

#include <span>

#include "model/architectures/architecture.h"

namespace octavo::model {

/// The families that can be run.
std::span<const Architecture* const> known_architectures();

/// The family that the checkpoint names (config.json `architectures`, GGUF `general.architecture`).
/// kUnsupported, listing the known ones, when it is none of them.
Result<const Architecture*> find_architecture(const checkpoint::Checkpoint& checkpoint);

/// Reads, validates and accepts the description of a checkpoint.
Result<DecoderConfig> read_decoder_config(const checkpoint::Checkpoint& checkpoint,
                                          const Architecture& architecture);

}  // namespace octavo::model
