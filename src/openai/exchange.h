#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace octavo::openai {

/// A request as the handlers see it: whole body, no connection.
struct HttpRequest {
  std::string method;
  std::string path;                                          // decoded, without query
  std::string query;                                         // raw, without '?'
  std::vector<std::pair<std::string, std::string>> headers;  // names lower-case
  std::string body;
  std::string client;  // "ip:port" for the access log
  /// Value of the first header of this (lower-case) name, or empty.
  std::string_view header(std::string_view name) const {
    for (const auto& [key, value] : headers)
      if (key == name) return value;
    return {};
  }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

/// The answering end of one request, implemented by server/. All calls are safe from any thread and
/// never block; after the client has gone they do nothing. Exactly one of `respond` or
/// `begin_stream` .. `end_stream` is used.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  virtual ~Exchange() = default;
  virtual void respond(HttpResponse response) = 0;
  /// Sends the status line and headers of a text/event-stream answer.
  virtual void begin_stream(std::vector<std::pair<std::string, std::string>> headers) = 0;
  /// Queues bytes (whole SSE events). False when the client has gone or its buffer is over the
  /// limit: the handler should stop.
  virtual bool write(std::string bytes) = 0;
  virtual void end_stream() = 0;
  /// Called once, from any thread, if the client goes before the end. Set before anything is sent.
  virtual void on_disconnect(std::function<void()> callback) = 0;
  /// Runs `work` on a thread of the HTTP pool where blocking work is not allowed but CPU work is
  /// (tokenising, JSON). Used to leave the engine's output thread quickly.
  virtual void post(std::function<void()> work) = 0;
};

}  // namespace octavo::openai
