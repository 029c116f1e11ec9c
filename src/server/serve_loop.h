#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>

#include "frontend/frontend.h"
#include "server/server.h"

namespace octavo::server {

/// The life of a serving process from "listening" to its exit code, on the main thread: start
/// lines, SIGTERM and SIGINT (the first drains, the second aborts), the watch on the engine.
class ServeLoop {
 public:
  ServeLoop(Server& server, frontend::Frontend& frontend, const config::ServerConfig& config);

  /// Starts the server and serves until a signal has been obeyed or the engine has died. Returns
  /// the process's exit code: 0 after a shutdown, 1 when the engine died, did not obey, or
  /// nothing could be started. The server is stopped; the frontend is the caller's to stop.
  int run();
  /// As if the signal had arrived. Any thread.
  void notify_signal();

 private:
  enum class Phase { kServing, kDraining, kAborting, kFailing, kEngineDead };
  using TimePoint = std::chrono::steady_clock::time_point;

  void log_start() const;
  void wait_for_signal();
  void on_signal();
  void begin_abort();
  void begin_failing();
  void schedule_tick();
  void on_tick();
  void finish(int exit_code);

  Server& server_;
  frontend::Frontend& frontend_;
  const config::ServerConfig config_;
  boost::asio::io_context context_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer tick_;
  Phase phase_ = Phase::kServing;
  TimePoint deadline_;  // of the current phase
  TimePoint phase_start_;
  bool reported_death_ = false;
  int exit_code_ = 0;
};

}  // namespace octavo::server
