#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::bench {

/// Sets one parameter in the words of a command, in place where the command names it already
/// (`--x v`, `--x=v`, `--no-x`, `_` for `-`), else at its end. What names it again is taken out.
///   number, text   --name value
///   true, false    --name, --no-name; with a dot in the name --name=true, --name=false
///   object         --name and its JSON
///   list           --name a b c
///   null           takes the flag out
/// In the name `_` becomes `-`, but not behind a dot: those are keys of a nested configuration.
void set_parameter(std::vector<std::string>& words, std::string_view name,
                   const nlohmann::ordered_json& value);

/// The value as it stands on a command line.
std::string parameter_text(const nlohmann::ordered_json& value);

/// The last value of a flag in the words of a command; empty when it is not there or has none.
std::string find_flag(const std::vector<std::string>& words, std::string_view name);

}  // namespace octavo::bench
