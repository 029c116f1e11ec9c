#pragma once

#include <optional>
#include <string_view>

#include "config/config.h"
#include "server/http_parser.h"
#include "server/http_text.h"

namespace octavo::server {

/// Cross-origin rules (--allowed-origins, -methods, -headers, --allow-credentials). By default no
/// origin is allowed. Const and safe from any thread.
class Cors {
 public:
  explicit Cors(const config::ServerConfig& config);
  /// The answer to a preflight request, or nothing when `request` is not one.
  std::optional<openai::HttpResponse> preflight(const ParsedRequest& request) const;
  /// Appends what a browser needs to hand the response to a page of the request's origin.
  void append_headers(const ParsedRequest& request, HeaderList& headers) const;

 private:
  bool origin_allowed(std::string_view origin) const;
  HeaderList origin_headers(std::string_view origin) const;

  const std::vector<std::string> origins_;
  const std::vector<std::string> methods_;
  const std::vector<std::string> headers_;
  const bool credentials_;
};

}  // namespace octavo::server
