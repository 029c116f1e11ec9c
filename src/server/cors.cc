#include "server/cors.h"

#include <algorithm>

namespace octavo::server {
namespace {

bool has_wildcard(const std::vector<std::string>& list) {
  return std::find(list.begin(), list.end(), "*") != list.end();
}

std::string join(const std::vector<std::string>& list) {
  std::string out;
  for (const std::string& item : list) {
    if (!out.empty()) out += ", ";
    out += item;
  }
  return out;
}

}  // namespace

Cors::Cors(const config::ServerConfig& config)
    : origins_(config.allowed_origins),
      methods_(config.allowed_methods),
      headers_(config.allowed_headers),
      credentials_(config.allow_credentials) {}

bool Cors::origin_allowed(std::string_view origin) const {
  return has_wildcard(origins_) ||
         std::find(origins_.begin(), origins_.end(), origin) != origins_.end();
}

HeaderList Cors::origin_headers(std::string_view origin) const {
  HeaderList out;
  if (has_wildcard(origins_) && !credentials_) {
    out.emplace_back("access-control-allow-origin", "*");
  } else {
    out.emplace_back("access-control-allow-origin", std::string(origin));
    out.emplace_back("vary", "Origin");
  }
  if (credentials_) out.emplace_back("access-control-allow-credentials", "true");
  return out;
}

std::optional<openai::HttpResponse> Cors::preflight(const ParsedRequest& request) const {
  if (request.method != "OPTIONS" || !request.has_header("origin") ||
      !request.has_header("access-control-request-method")) {
    return std::nullopt;
  }
  openai::HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  const std::string_view origin = request.header("origin");
  if (!origin_allowed(origin)) {
    response.status = 400;
    response.body = "Disallowed CORS origin";
    return response;
  }
  response.body = "OK";
  response.headers = origin_headers(origin);
  response.headers.emplace_back(
      "access-control-allow-methods",
      has_wildcard(methods_) ? "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT" : join(methods_));
  const std::string_view asked = request.header("access-control-request-headers");
  if (!has_wildcard(headers_)) {
    response.headers.emplace_back("access-control-allow-headers", join(headers_));
  } else if (!asked.empty()) {
    response.headers.emplace_back("access-control-allow-headers", std::string(asked));
  }
  response.headers.emplace_back("access-control-max-age", "600");
  return response;
}

void Cors::append_headers(const ParsedRequest& request, HeaderList& headers) const {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || !origin_allowed(origin)) return;
  for (auto& header : origin_headers(origin)) headers.push_back(std::move(header));
}

}  // namespace octavo::server
