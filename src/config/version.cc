#include "config/version.h"

namespace octavo::config {

std::string_view version() { return OCTAVO_VERSION; }
std::string_view git_revision() { return OCTAVO_GIT_REVISION; }

}  // namespace octavo::config
