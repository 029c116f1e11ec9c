#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/config.h"

namespace octavo::config {

/// Value of an environment variable, nullopt when it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(std::string_view)>;

/// The lookup of this process.
EnvironmentLookup process_environment();

/// Names of all variables of this process.
std::vector<std::string> process_variable_names();

/// Those of `names` that begin with VLLM_ and that nothing here reads, sorted.
std::vector<std::string> unread_variables(std::span<const std::string> names);

/// The variables that are read, as a Markdown table.
std::string environment_markdown();

/// Sets what the environment's variables say; flags are applied over it. An empty
/// variable counts as not set. The error names the variable.
Status apply_environment(const EnvironmentLookup& lookup, Config& config);

}  // namespace octavo::config
