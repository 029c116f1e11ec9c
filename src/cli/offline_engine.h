#pragma once

#include <memory>

#include "base/result.h"
#include "bench/offline.h"
#include "config/config.h"

namespace octavo::cli {

/// Loads the model and starts engine and output stage, without a server.
Result<std::unique_ptr<bench::OfflineEngine>> open_offline_engine(config::Config config);

}  // namespace octavo::cli
