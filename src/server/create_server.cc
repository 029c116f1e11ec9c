#include "frontend/frontend.h"
#include "server/server.h"

namespace octavo::server {

Result<std::unique_ptr<Server>> create_server(Listener listener, const config::ServerConfig& config,
                                              const openai::ApiContext& api,
                                              observability::HttpMetrics& http_metrics,
                                              Clock& clock) {
  ServerOptions options;
  options.config = config;
  options.api = &api;
  options.routes = all_routes();
  options.task = api.frontend->engine_info().task;
  options.variable = config::process_environment();
  options.clock = &clock;
  options.record = [&http_metrics](const RequestRecord& record) {
    http_metrics.record(record.handler, record.method, record.status, record.request_bytes,
                        record.response_bytes, record.duration_s);
  };
  const bool engine_series = api.config == nullptr || !api.config->frontend.disable_log_stats;
  options.metrics_text = [&api, &http_metrics, engine_series] {
    std::string text;
    observability::append_process_text(text);
    if (engine_series) api.frontend->metrics().append_text(text);
    http_metrics.append_text(text);
    return text;
  };
  return Server::create(std::move(listener), std::move(options));
}

}  // namespace octavo::server
