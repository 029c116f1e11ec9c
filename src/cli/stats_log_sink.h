#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "frontend/frontend.h"

namespace octavo::cli {

using LineWriter = std::function<void(log::Level, log::Source, const std::string& line)>;

/// Writes the periodic stats line and the preemption warning (observability/stats_log.h) from the
/// figures of each step. Without an interval (`--disable-log-stats`) only the warning. `write`
/// defaults to the log.
std::unique_ptr<frontend::StatsSink> make_stats_log_sink(std::optional<double> interval_s,
                                                         const Clock& clock, LineWriter write = {});

}  // namespace octavo::cli
