#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "config/flag.h"

namespace octavo::config {

/// Every flag of `octavo serve`, in the order of its help. Names are unique (tested).
const std::vector<const Flag*>& all_flags();
/// By its full name without dashes; nullptr when there is none.
const Flag* find_flag(std::string_view name);

// The parts of the table, each in its own file.
std::span<const Flag> engine_flags();
std::span<const Flag> frontend_flags();
std::span<const Flag> octavo_flags();
std::span<const Flag> no_effect_flags();
std::span<const Flag> later_flags();

}  // namespace octavo::config
