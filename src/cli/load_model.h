#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "model/model.h"

// What `octavo serve` and the offline benchmarks do alike on the way to an engine.

namespace octavo::cli {

/// `--load-format`. The error names the flag.
Result<checkpoint::LoadFormat> load_format_of(const std::string& name);

/// Reads and packs the weights on a pool of its own; logs what it found.
Result<std::unique_ptr<model::Model>> load_model(const checkpoint::Checkpoint& checkpoint,
                                                 const config::EngineConfig& config, Clock& clock);

/// The first of `--served-model-name`, else the model as given.
std::string first_served_name(const config::Config& config);

}  // namespace octavo::cli
