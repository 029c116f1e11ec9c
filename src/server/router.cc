#include "server/http_text.h"
#include "server/routes.h"

namespace octavo::server {

bool serves_method(std::string_view methods, std::string_view method) {
  if (method == "HEAD") method = "GET";
  while (!methods.empty()) {
    const size_t comma = methods.find(',');
    if (methods.substr(0, comma) == method) return true;
    if (comma == std::string_view::npos) break;
    methods.remove_prefix(comma + 1);
  }
  return false;
}

std::string allow_header(std::string_view methods) {
  std::string out;
  while (!methods.empty()) {
    const size_t comma = methods.find(',');
    const std::string_view method = methods.substr(0, comma);
    if (!out.empty()) out += ", ";
    out += method;
    if (method == "GET") out += ", HEAD";
    if (comma == std::string_view::npos) break;
    methods.remove_prefix(comma + 1);
  }
  return out;
}

std::vector<Route> existing_routes(std::span<const Route> routes,
                                   const RouteConditions& conditions) {
  const auto is_on = [&](std::string_view variable) {
    return variable.empty() || (conditions.variable && conditions.variable(variable) == "1");
  };
  std::vector<Route> out;
  for (const Route& route : routes) {
    if (route.task && route.task != conditions.task) continue;
    if (route.flag && !(conditions.config && route.flag(*conditions.config))) continue;
    if (!is_on(route.variable)) continue;
    if (route.scope == Scope::kDev && !is_on("VLLM_SERVER_DEV_MODE")) continue;
    out.push_back(route);
  }
  return out;
}

RouteMatch match_route(std::span<const Route> routes, std::string_view method,
                       std::string_view path) {
  RouteMatch match;
  for (const Route& route : routes) {
    const bool fits = route.is_prefix ? path.starts_with(route.path) : path == route.path;
    if (!fits) continue;
    if (match.same_path == nullptr) match.same_path = &route;
    if (serves_method(route.methods, method)) {
      match.route = &route;
      return match;
    }
  }
  return match;
}

TargetParts split_target(std::string_view target, std::string_view root_path) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t slash = target.find_first_of("/?");
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
    break;
  }
  TargetParts parts;
  const size_t question = target.find('?');
  parts.path = percent_decode(target.substr(0, question));
  if (question != std::string_view::npos) parts.query = target.substr(question + 1);
  while (root_path.ends_with('/')) root_path.remove_suffix(1);
  const bool under_root = !root_path.empty() && parts.path.starts_with(root_path) &&
                          parts.path.size() > root_path.size() &&
                          parts.path[root_path.size()] == '/';
  if (under_root) parts.path.erase(0, root_path.size());
  return parts;
}

}  // namespace octavo::server
