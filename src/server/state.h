#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "config/config.h"
#include "openai/api.h"
#include "server/access_log.h"
#include "server/auth.h"
#include "server/cors.h"
#include "server/routes.h"
#include "server/transport.h"
#include "server/worker_pool.h"

namespace octavo::server {

/// A finished response, for the http_* series.
struct RequestRecord {
  std::string_view handler;  // the route's path, or "none"
  std::string_view method;
  int status = 0;
  int64_t request_bytes = 0;
  int64_t response_bytes = 0;  // Content-Length, 0 for streams
  double duration_s = 0.0;
};

/// What a Server is made of. The pointers must outlive it.
struct ServerOptions {
  config::ServerConfig config;
  const openai::ApiContext* api = nullptr;
  std::span<const Route> routes;                // of which those exist that may
  engine::Task task = engine::Task::kGenerate;  // of the model
  config::EnvironmentLookup variable;           // for routes behind a variable
  Clock* clock = nullptr;
  int num_workers = 2;
  size_t max_queued_requests = 8192;               // waiting for a worker; then 503
  int64_t max_held_body_bytes = int64_t{1} << 30;  // bodies of all open requests; then 503
  /// Answers that clients have not read; beyond it new ones become 503 and streams are cut.
  int64_t max_held_response_bytes = int64_t{1} << 30;
  std::function<void(const RequestRecord&)> record;  // any I/O thread
  std::function<std::string()> metrics_text;         // any I/O thread
};

/// Shared by all connections of one server. Immutable but for the atomics.
class ServerState {
 public:
  explicit ServerState(ServerOptions server_options);

  /// `path` without root_path, decoded. A route is guarded unless it is public.
  bool needs_key(const Route* route, std::string_view method) const;

  ServerOptions options;
  const std::vector<Route> routes;  // that exist here
  Authenticator auth;
  Cors cors;
  AccessLog access_log;
  std::shared_ptr<WorkerPool> pool;
  std::unique_ptr<TlsContext> tls;

  std::atomic<bool> draining{false};
  std::atomic<int64_t> num_connections{0};
  std::atomic<int64_t> num_open_requests{0};  // handed to a worker, answer not complete
  std::atomic<int64_t> server_load{0};        // of them, on routes that generate
  std::atomic<int64_t> held_body_bytes{0};
  std::atomic<int64_t> held_response_bytes{0};
  int64_t max_connections = 0;  // after RLIMIT_NOFILE
};

}  // namespace octavo::server
