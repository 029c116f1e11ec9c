#pragma once

#include <string_view>

namespace octavo::config {

/// Version of this build, "0.1.0": the project version of CMake.
std::string_view version();

}  // namespace octavo::config
