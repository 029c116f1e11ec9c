#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "client/response_parser.h"
#include "client/url.h"

namespace boost::asio {
class io_context;
}

namespace octavo::client {

/// Bounds and habits of a client.
struct ClientOptions {
  int64_t max_header_bytes = 64 << 10;
  int64_t max_body_bytes = int64_t{1} << 30;  // of one answer
  double connect_timeout_s = 30.0;            // name, connection and TLS together
  double total_timeout_s = 6 * 3600.0;        // of one exchange
  bool verify_tls = true;
  size_t max_idle_connections = 1024;
};

struct Request {
  std::string method = "GET";
  std::string target = "/";  // path and query
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

/// Who hears of one exchange. Calls come on the thread of the io_context, in the order head, body
/// pieces, end.
class ResponseReader {
 public:
  virtual ~ResponseReader() = default;
  virtual void on_head(const ResponseHead& head) = 0;
  /// A piece of the body, framing removed. False: enough; the connection is given up and the
  /// exchange ends without an error.
  virtual bool on_body(std::string_view piece) = 0;
  /// Exactly once, last. Errors: kUnavailable (no name, no connection, cut off), kCancelled (out of
  /// time), kInvalidArgument (no HTTP, too large, a header that cannot be sent).
  virtual void on_end(const Status& status) = 0;
};

/// HTTP/1.1 to one origin. Keeps connections and reuses the one that was used last; a kept one that
/// turns out to be closed is replaced and the request sent once more, if no byte of the answer had
/// come. Sends what it is told and nothing else: no redirects, no cookies, no proxies.
class HttpClient {
 public:
  HttpClient(boost::asio::io_context& context, Origin origin, const ClientOptions& options);
  ~HttpClient();

  /// Begins one exchange; `reader` is kept until its on_end.
  void start(Request request, std::shared_ptr<ResponseReader> reader);

  const Origin& origin() const;
  int64_t num_connections_opened() const;
  int64_t num_reconnects() const;  // requests sent again because a kept connection was closed

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

/// Whether `value` may stand in a header line: no CR, LF, NUL or other control character.
bool is_header_value(std::string_view value);
/// Whether `name` is a header name (RFC 9110 token).
bool is_header_name(std::string_view name);

}  // namespace octavo::client
