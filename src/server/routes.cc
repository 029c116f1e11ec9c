#include "server/routes.h"

#include <array>

#include "frontend/frontend.h"
#include "server/state.h"

namespace octavo::server {
namespace {

openai::HttpResponse empty_response(bool healthy) {
  openai::HttpResponse response;
  response.status = healthy ? 200 : 503;
  return response;
}

// The process is up and its engine has not died; says nothing about load (contract section 13).
openai::HttpResponse get_health(const ServerState& state, const openai::HttpRequest&) {
  return empty_response(!state.options.api->frontend->engine_dead());
}

// Steps finish while work waits.
openai::HttpResponse get_live(const ServerState& state, const openai::HttpRequest&) {
  const frontend::Frontend& frontend = *state.options.api->frontend;
  return empty_response(!frontend.engine_dead() && frontend.live());
}

// New work is welcome: the model has given a real token, and nobody is shutting down.
openai::HttpResponse get_ready(const ServerState& state, const openai::HttpRequest&) {
  const frontend::Frontend& frontend = *state.options.api->frontend;
  return empty_response(!state.draining.load() && !frontend.engine_dead() && frontend.ready());
}

openai::HttpResponse get_load(const ServerState& state, const openai::HttpRequest&) {
  const bool tracked = state.options.config.enable_server_load_tracking;
  openai::HttpResponse response;
  response.body =
      R"({"server_load":)" + std::to_string(tracked ? state.server_load.load() : 0) + "}";
  return response;
}

openai::HttpResponse get_metrics(const ServerState& state, const openai::HttpRequest&) {
  openai::HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = state.options.metrics_text();
  return response;
}

// Paths are matched as written: case and slashes count. More specific rows stand above prefixes.
constexpr auto kRoutes = std::to_array<Route>({
    {.methods = "GET", .path = "/health", .scope = Scope::kPublic, .local = get_health},
    {.methods = "GET,POST", .path = "/ping", .scope = Scope::kPublic, .local = get_health},
    {.methods = "GET", .path = "/live", .scope = Scope::kPublic, .local = get_live},
    {.methods = "GET", .path = "/ready", .scope = Scope::kPublic, .local = get_ready},
    {.methods = "GET", .path = "/version", .scope = Scope::kPublic, .handler = openai::get_version},
    {.methods = "GET", .path = "/load", .scope = Scope::kInference, .local = get_load},
    {.methods = "GET",
     .path = "/v1/models",
     .scope = Scope::kInference,
     .handler = openai::get_models},
    {.methods = "GET",
     .path = "/octavo/config",
     .scope = Scope::kInference,
     .handler = openai::get_server_config},
    {.methods = "POST",
     .path = "/v1/completions",
     .scope = Scope::kInference,
     .lane = Lane::kWorker,
     .handler = openai::post_completions,
     .generates = true,
     .task = engine::Task::kGenerate},
    {.methods = "POST",
     .path = "/v1/chat/completions",
     .scope = Scope::kInference,
     .lane = Lane::kWorker,
     .handler = openai::post_chat_completions,
     .generates = true,
     .task = engine::Task::kGenerate},
    {.methods = "POST",
     .path = "/tokenize",
     .scope = Scope::kInference,
     .lane = Lane::kWorker,
     .handler = openai::post_tokenize},
    {.methods = "POST",
     .path = "/detokenize",
     .scope = Scope::kInference,
     .lane = Lane::kWorker,
     .handler = openai::post_detokenize},
    {.methods = "GET,POST,PUT",
     .path = "/metrics",
     .scope = Scope::kOperate,
     .local = get_metrics,
     .is_prefix = true},
});

}  // namespace

std::span<const Route> all_routes() { return kRoutes; }

}  // namespace octavo::server
