#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"
#include "config/config.h"

namespace octavo::server {

/// Access lines in uvicorn's shape (contract/logging.md section 5) on stdout, written by their own
/// thread: a stalled terminal or pipe must not stall an I/O thread. When the writer cannot keep up,
/// lines are dropped and the number of dropped ones is written afterwards.
class AccessLog {
 public:
  explicit AccessLog(const config::ServerConfig& config);
  ~AccessLog();
  /// `target` is the request target as sent. Any thread.
  void record(std::string_view client, std::string_view method, std::string_view target,
              int version_minor, int status);

 private:
  void run();
  bool muted(std::string_view target) const;

  const bool enabled_;
  std::vector<std::string> muted_paths_;
  BoundedQueue<std::string> lines_;
  std::atomic<long> num_dropped_{0};
  std::thread writer_;
};

}  // namespace octavo::server
