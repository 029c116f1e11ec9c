#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace octavo::client {

/// Scheme, host and port: what a connection goes to.
struct Origin {
  bool is_tls = false;
  std::string host;  // without the brackets of IPv6
  uint16_t port = 80;

  /// The Host header: brackets around IPv6, the port unless it is the scheme's own.
  std::string host_header() const;
  bool operator==(const Origin&) const = default;
};

/// An http or https URL.
struct Url {
  Origin origin;
  std::string path;  // "" or begins with '/', no trailing '/'; a query is part of it
};

/// Errors say what is wrong: scheme, user names (never wanted here), host, port, odd characters.
Result<Url> parse_url(std::string_view text);

/// Host and port as they were given on a command line.
Result<Origin> make_origin(std::string_view host, int64_t port);

}  // namespace octavo::client
