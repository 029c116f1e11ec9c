#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/environment.h"
#include "engine/request.h"
#include "openai/api.h"
#include "openai/exchange.h"

namespace octavo::server {

class ServerState;

/// Who may call a route. Only kPublic is open once an API key is set (kOperate holds /metrics,
/// which
/// --unguarded-metrics opens). kDev routes exist in dev mode only.
enum class Scope { kPublic, kInference, kOperate, kDev };

/// Where the answer is made. kIo: at once, on the I/O thread, also when every worker is busy.
enum class Lane { kIo, kWorker };

/// Answers from the server's own state; quick, never blocks.
using LocalHandler = openai::HttpResponse (*)(const ServerState& state,
                                              const openai::HttpRequest& request);

/// One row: exactly one of `local` and `handler` is set.
struct Route {
  std::string_view methods;  // "GET" or "GET,POST"; HEAD comes with GET
  std::string_view path;
  Scope scope = Scope::kPublic;
  Lane lane = Lane::kIo;
  LocalHandler local = nullptr;
  openai::Handler handler = nullptr;
  bool is_prefix = false;  // any path that starts with `path`
  bool generates = false;  // counts in /load, is refused while draining
  // When the route exists: all that is set must hold.
  std::optional<engine::Task> task = std::nullopt;       // what the model is for
  bool (*flag)(const config::Config& config) = nullptr;  // a flag of the command line
  std::string_view variable = {};                        // an environment variable that is "1"
};

/// All routes of the server (routes.cc).
std::span<const Route> all_routes();

/// What decides which routes a server has.
struct RouteConditions {
  const config::Config* config = nullptr;  // nullptr: no flag is set
  engine::Task task = engine::Task::kGenerate;
  config::EnvironmentLookup variable = {};  // empty: none is set
};
/// The rows that exist under `conditions`, in order. kDev rows need VLLM_SERVER_DEV_MODE=1 too.
std::vector<Route> existing_routes(std::span<const Route> routes,
                                   const RouteConditions& conditions);

/// What a method and a path come to.
struct RouteMatch {
  const Route* route = nullptr;      // method and path match
  const Route* same_path = nullptr;  // the path exists, perhaps with other methods
};
/// Exact, case-sensitive match on the decoded path; prefix rows last.
RouteMatch match_route(std::span<const Route> routes, std::string_view method,
                       std::string_view path);
/// Whether `methods` ("GET,POST") serves `method`.
bool serves_method(std::string_view methods, std::string_view method);
/// "GET, HEAD" for the Allow header.
std::string allow_header(std::string_view methods);

/// Path and query of a request target (origin, absolute or asterisk form), root_path removed.
struct TargetParts {
  std::string path;  // decoded
  std::string query;
};
TargetParts split_target(std::string_view target, std::string_view root_path);

}  // namespace octavo::server
