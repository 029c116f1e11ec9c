#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "observability/metrics.h"
#include "server/listener.h"
#include "server/state.h"

namespace octavo::server {

class IoThread;

/// The HTTP server: a bound listener, its I/O threads and workers. All methods are safe from any
/// thread except `start` and `stop`, which belong to the owner.
class Server {
 public:
  /// Nothing runs before `start`. Errors: a TLS file that cannot be read.
  static Result<std::unique_ptr<Server>> create(Listener listener, ServerOptions options);
  ~Server();

  /// Listens and starts the threads.
  Status start();
  /// New generating requests are refused from now on; everything else goes on.
  void begin_drain();
  /// Requests whose answer is not complete yet.
  int64_t num_open_requests() const { return state_->num_open_requests.load(); }
  int64_t num_connections() const { return state_->num_connections.load(); }
  /// Refuses new connections, gives what is on its way to clients up to `grace_ms`, then cuts and
  /// joins. Idempotent.
  void stop(int grace_ms = 2000);

  const Listener& listener() const { return listener_; }
  const ServerState& state() const { return *state_; }

 private:
  Server(Listener listener, ServerOptions options);

  Listener listener_;
  std::unique_ptr<ServerState> state_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  bool started_ = false;
  bool stopped_ = false;
};

/// The server of `octavo serve`: all routes, /metrics from the frontend's engine and
/// `http_metrics`. Everything passed by reference must outlive it.
Result<std::unique_ptr<Server>> create_server(Listener listener, const config::ServerConfig& config,
                                              const openai::ApiContext& api,
                                              observability::HttpMetrics& http_metrics,
                                              Clock& clock);

}  // namespace octavo::server
