#pragma once

#include <string>
#include <string_view>

namespace octavo::config {

/// First line of the help and of every error.
std::string serve_usage();
/// Text for `octavo serve --help[=topic]`: empty: the groups; `all`: every flag; a group title in
/// any case; `markdown`: docs/reference/flags.md; else the flags whose name contains the word.
std::string serve_help(std::string_view topic);

}  // namespace octavo::config
