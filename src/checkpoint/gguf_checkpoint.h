#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace octavo::checkpoint {

/// Opens one .gguf file; without weights its tensors are neither read nor checked.
Result<std::unique_ptr<Checkpoint>> open_gguf(const std::string& path, bool with_weights);

}  // namespace octavo::checkpoint
