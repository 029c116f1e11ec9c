#include "client/url.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace octavo::client {
namespace {

constexpr size_t kMaxUrl = 8192;

Error bad_url(std::string_view text, std::string_view why) {
  // What stands before an @ may be a password.
  if (text.find('@') != std::string_view::npos) {
    return {Code::kInvalidArgument, "a URL with a user name is not taken"};
  }
  return {Code::kInvalidArgument, fmt::format("'{}' is no URL: {}", text.substr(0, 200), why)};
}

/// `rest` is "host", "host:port", "[v6]" or "[v6]:port".
Status read_authority(std::string_view text, std::string_view rest, Origin& origin) {
  if (rest.find('@') != std::string_view::npos) return bad_url(text, "");
  std::string_view port;
  if (rest.starts_with('[')) {
    const size_t close = rest.find(']');
    if (close == std::string_view::npos) return bad_url(text, "a bracket is open");
    origin.host = rest.substr(1, close - 1);
    port = rest.substr(close + 1);
    if (!port.empty() && port[0] != ':') return bad_url(text, "text after the bracket");
  } else {
    const size_t colon = rest.find(':');
    origin.host = rest.substr(0, colon);
    port = colon == std::string_view::npos ? "" : rest.substr(colon);
  }
  if (origin.host.empty()) return bad_url(text, "no host");
  if (port.empty()) return {};
  port.remove_prefix(1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), origin.port);
  if (error != std::errc() || end != port.data() + port.size() || origin.port == 0) {
    return bad_url(text, "the port must be from 1 to 65535");
  }
  return {};
}

}  // namespace

std::string Origin::host_header() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  std::string out = is_v6 ? "[" + host + "]" : host;
  if (port != (is_tls ? 443 : 80)) out += ":" + std::to_string(port);
  return out;
}

Result<Url> parse_url(std::string_view text) {
  Url url;
  std::string_view rest = text;
  if (rest.size() > kMaxUrl) return bad_url(text, "too long");
  if (std::ranges::any_of(rest, [](unsigned char c) { return c <= ' ' || c >= 127; })) {
    return bad_url(text, "it has a space or a character that is not ASCII");
  }
  if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
    url.origin.is_tls = true;
    url.origin.port = 443;
  } else {
    return bad_url(text, "it must begin with http:// or https://");
  }
  const size_t slash = std::min(rest.find_first_of("/?#"), rest.size());
  OCTAVO_TRY(read_authority(text, rest.substr(0, slash), url.origin));
  url.path = rest.substr(slash);
  if (url.path.find('#') != std::string::npos) return bad_url(text, "it has a fragment");
  if (url.path.starts_with('?')) url.path.insert(0, 1, '/');
  while (url.path.ends_with('/')) url.path.pop_back();
  return url;
}

Result<Origin> make_origin(std::string_view host, int64_t port) {
  const bool is_v6 = host.find(':') != std::string_view::npos && !host.starts_with('[');
  OCTAVO_TRY(const Url url, parse_url(is_v6 ? fmt::format("http://[{}]:{}", host, port)
                                            : fmt::format("http://{}:{}", host, port)));
  if (!url.path.empty()) return bad_url(host, "a host has no path");
  return url.origin;
}

}  // namespace octavo::client
