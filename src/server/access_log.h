#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace octavo::server {

/// Access lines in uvicorn's shape, through the log's writer: a
/// stalled terminal or pipe must not stall an I/O thread (base/log.h).
class AccessLog {
 public:
  explicit AccessLog(const config::ServerConfig& config);
  /// `target` is the request target as sent. Any thread.
  void record(std::string_view client, std::string_view method, std::string_view target,
              int version_minor, int status) const;

 private:
  bool muted(std::string_view target) const;

  const bool enabled_;
  std::vector<std::string> muted_paths_;
};

}  // namespace octavo::server
