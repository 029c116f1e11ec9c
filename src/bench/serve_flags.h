#pragma once

#include <span>

#include "config/command_line.h"

namespace octavo::bench {

/// Every option of `octavo bench serve`, with vLLM's names and defaults.
std::span<const config::Option> serve_flags();

}  // namespace octavo::bench
