#pragma once

#include <string>
#include <string_view>

namespace octavo::checkpoint {

/// A name taken from a file, fit for a one-line message: in single quotes, control characters and
/// bytes beyond ASCII as \xNN, cut after 120 bytes.
std::string quote(std::string_view name);

}  // namespace octavo::checkpoint
