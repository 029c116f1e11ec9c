#pragma once

#include <string_view>

namespace octavo::config {

/// Version of this build, "0.1.0": the project version of CMake.
std::string_view version();

/// The commit it was built from, twelve hex digits; "unknown" outside a git checkout.
std::string_view git_revision();

}  // namespace octavo::config
