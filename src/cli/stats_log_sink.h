#pragma once

#include <memory>

#include "base/clock.h"
#include "frontend/frontend.h"

namespace octavo::cli {

/// Writes the periodic stats line and the preemption warning (observability/stats_log.h) to the
/// log, from the figures of each step.
std::unique_ptr<frontend::StatsSink> make_stats_log_sink(double interval_s, const Clock& clock);

}  // namespace octavo::cli
