#include "server/state.h"

namespace octavo::server {

ServerState::ServerState(ServerOptions server_options)
    : options(std::move(server_options)),
      routes(existing_routes(options.routes, {options.api ? options.api->config : nullptr,
                                              options.task, options.variable})),
      auth(options.config.api_key),
      cors(options.config),
      access_log(options.config),
      pool(std::make_shared<WorkerPool>(options.num_workers, options.max_queued_requests)),
      max_connections(options.config.max_connections) {}

bool ServerState::needs_key(const Route* route, std::string_view method) const {
  if (!auth.enabled() || method == "OPTIONS") return false;
  if (route == nullptr) return true;  // an unknown path tells nothing without a key
  if (route->scope == Scope::kOperate) return !options.config.unguarded_metrics;
  return route->scope != Scope::kPublic;
}

}  // namespace octavo::server
