#pragma once

#include "bench/compare.h"

namespace octavo::bench {

/// Sorts the fields that differ into undeclared, declared and following ones. Error: a variable
/// that names nothing.
Status compare_conditions(std::span<const RunSet> sides, Comparison& comparison);

/// Warnings about the state of the machine and of the client during the runs, failed requests,
/// prefix caches that were warm in some runs only, and declared variables that do not differ.
void warn_of_states(std::span<const RunSet> sides, Comparison& comparison);

}  // namespace octavo::bench
