#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/compare.h"

namespace octavo::bench {

/// The comparison for people: what differs, warnings, and a table of verdicts; or why not.
std::string comparison_page(const Comparison& comparison);

/// The same for programs, format "octavo-comparison/1".
nlohmann::ordered_json comparison_json(const Comparison& comparison);

/// One HTML file with plots as inline SVG. It loads nothing and runs nothing.
std::string comparison_html(const Comparison& comparison);

/// How the ratios and intervals were made, in a sentence or two.
std::string describe_method(const Comparison& comparison);

/// A figure with four significant digits; a ratio with three decimals.
std::string format_figure(double value);
std::string format_ratio(const Contrast& contrast);
std::string format_interval(const Contrast& contrast);
std::string format_spread(const Spread& spread);

}  // namespace octavo::bench
