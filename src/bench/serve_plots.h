#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "bench/outcome.h"

namespace octavo::bench {

/// `--plot-timeline`: every request as a row from its send to its end, first the wait for the first
/// token, then its gaps coloured by the two limits. Failed requests have no row. HTML with SVG.
std::string timeline_page(std::span<const Outcome> outcomes,
                          const std::array<double, 2>& itl_limits_ms);

/// `--plot-dataset-stats`: histograms of prompt, output and all tokens, and the tokens of each
/// request. Of the same length.
std::string dataset_stats_page(std::span<const int64_t> prompt_lens,
                               std::span<const int64_t> output_lens);

}  // namespace octavo::bench
