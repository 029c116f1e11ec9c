#include "client/http_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cctype>
#include <chrono>
#include <optional>

#include "client/connection.h"

namespace octavo::client {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using asio::ip::tcp;
using TimePoint = std::chrono::steady_clock::time_point;

std::chrono::steady_clock::duration duration_of(double seconds) {
  constexpr double kMaxSeconds = 1e8;  // some three years; keeps the arithmetic in range
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(std::clamp(seconds, 0.0, kMaxSeconds)));
}

Result<std::string> serialize(const Request& request, const Origin& origin) {
  const auto bad = [](std::string_view what) {
    return Error{Code::kInvalidArgument, fmt::format("{} cannot be sent in a request", what)};
  };
  if (!is_header_name(request.method)) return bad("the method");
  if (request.target.empty() || request.target[0] != '/' ||
      std::ranges::any_of(request.target, [](unsigned char c) { return c <= ' ' || c >= 127; })) {
    return bad("the path");
  }
  std::string out = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", request.method, request.target,
                                origin.host_header());
  for (const auto& [name, value] : request.headers) {
    if (!is_header_name(name) || !is_header_value(value)) {
      return bad(fmt::format("header {}", is_header_name(name) ? name : "name"));
    }
    out += fmt::format("{}: {}\r\n", name, value);
  }
  if (!request.body.empty() || request.method == "POST") {
    out += fmt::format("Content-Length: {}\r\n", request.body.size());
  }
  out += "\r\n";
  out += request.body;
  return out;
}

}  // namespace

bool is_header_value(std::string_view value) {
  return std::ranges::all_of(value,
                             [](unsigned char c) { return c == '\t' || (c >= 32 && c != 127); });
}

bool is_header_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("!#$%&'*+-.^_`|~").find(char(c)) != std::string_view::npos;
  });
}

struct HttpClient::Impl {
  Impl(asio::io_context& context, Origin origin, const ClientOptions& options)
      : context(context), origin(std::move(origin)), options(options), resolver(context) {}

  asio::io_context& context;
  const Origin origin;
  const ClientOptions options;
  tcp::resolver resolver;
  std::optional<asio::ssl::context> tls;
  std::vector<tcp::endpoint> endpoints;  // once resolved
  std::vector<std::unique_ptr<Connection>> idle;
  int64_t num_opened = 0;
  int64_t num_reconnects = 0;

  /// A kept connection that still stands, or nothing.
  std::unique_ptr<Connection> take_idle() {
    while (!idle.empty()) {
      std::unique_ptr<Connection> last = std::move(idle.back());
      idle.pop_back();
      if (!last->is_stale()) return last;
    }
    return nullptr;
  }
  void keep(std::unique_ptr<Connection> connection) {
    if (idle.size() < options.max_idle_connections) idle.push_back(std::move(connection));
  }
};

namespace {

/// One request and its answer. Keeps itself alive through the handlers that are pending.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(std::shared_ptr<HttpClient::Impl> client, std::string bytes,
           std::shared_ptr<ResponseReader> reader)
      : client_(std::move(client)),
        bytes_(std::move(bytes)),
        reader_(std::move(reader)),
        parser_(client_->options.max_header_bytes),
        timer_(client_->context),
        deadline_(std::chrono::steady_clock::now() +
                  duration_of(client_->options.total_timeout_s)) {}

  void begin() {
    connection_ = client_->take_idle();
    is_reused_ = connection_ != nullptr;
    if (is_reused_) {
      arm(deadline_);
      send();
    } else {
      open();
    }
  }
  void fail_soon(Error error) {
    asio::post(client_->context,
               [self = shared_from_this(), error = std::move(error)] { self->end(error); });
  }

 private:
  /// From here on, running out of time ends the exchange at `when`.
  void arm(TimePoint when) {
    timer_.expires_at(when);
    timer_.async_wait([self = shared_from_this()](ErrorCode error) {
      if (error || self->is_over_) return;
      self->end(Error{Code::kCancelled, self->is_open_ ? "timed out" : "timed out connecting"});
    });
  }

  void open() {
    is_open_ = false;
    arm(std::min(deadline_, std::chrono::steady_clock::now() +
                                duration_of(client_->options.connect_timeout_s)));
    if (!client_->endpoints.empty()) {
      connect();
      return;
    }
    client_->resolver.async_resolve(
        client_->origin.host, std::to_string(client_->origin.port),
        [self = shared_from_this()](ErrorCode error, tcp::resolver::results_type results) {
          if (self->is_over_) return;
          if (error || results.empty()) {
            self->end(Error{Code::kUnavailable,
                            fmt::format("the name '{}' cannot be resolved: {}",
                                        self->client_->origin.host, error.message())});
            return;
          }
          self->client_->endpoints.clear();
          for (const auto& entry : results) self->client_->endpoints.push_back(entry.endpoint());
          self->connect();
        });
  }

  void connect() {
    if (client_->origin.is_tls && !client_->tls) {
      client_->tls.emplace(asio::ssl::context::tls_client);
      ErrorCode ignored;
      client_->tls->set_default_verify_paths(ignored);
      client_->tls->set_verify_mode(client_->options.verify_tls ? asio::ssl::verify_peer
                                                                : asio::ssl::verify_none);
    }
    connection_ = std::make_unique<Connection>(client_->context,
                                               client_->origin.is_tls ? &*client_->tls : nullptr);
    asio::async_connect(
        connection_->socket(), client_->endpoints,
        [self = shared_from_this()](ErrorCode error, const tcp::endpoint&) {
          if (self->is_over_) return;
          if (error) {
            self->end(Error{Code::kUnavailable, "cannot connect: " + error.message()});
            return;
          }
          ++self->client_->num_opened;
          self->on_connected();
        });
  }

  void on_connected() {
    ErrorCode ignored;
    connection_->socket().set_option(tcp::no_delay(true), ignored);
    if (!connection_->is_tls()) {
      on_open();
      return;
    }
    auto& tls = connection_->tls();
    SSL_set_tlsext_host_name(tls.native_handle(), client_->origin.host.c_str());
    if (client_->options.verify_tls) {
      tls.set_verify_callback(asio::ssl::host_name_verification(client_->origin.host), ignored);
    }
    tls.async_handshake(asio::ssl::stream_base::client,
                        [self = shared_from_this()](ErrorCode error) {
                          if (self->is_over_) return;
                          if (error) {
                            self->end(Error{Code::kUnavailable, "TLS: " + error.message()});
                            return;
                          }
                          self->on_open();
                        });
  }

  void on_open() {
    is_open_ = true;
    arm(deadline_);
    send();
  }

  void send() {
    is_open_ = true;
    // Both at once: a server may answer (and close) before it has read a large body.
    write_failed_ = write_done_ = false;
    connection_->async_write(
        bytes_, [self = shared_from_this(), used = connection_.get()](ErrorCode error) {
          if (self->connection_.get() != used) return;  // that connection was replaced
          (error ? self->write_failed_ : self->write_done_) = true;
        });
    read();
  }

  void read() {
    connection_->async_read([self = shared_from_this()](ErrorCode error, size_t count) {
      if (self->is_over_) return;
      error ? self->on_read_error(error) : self->on_bytes(self->connection_->received(count));
    });
  }

  void on_read_error(const ErrorCode& error) {
    if (parser_.untouched() && is_reused_) {
      // The server had closed the kept connection. It has not answered, so it has not been asked.
      ++client_->num_reconnects;
      is_reused_ = false;
      retired_.push_back(std::move(connection_));  // its write may still be pending
      retired_.back()->close();
      open();
      return;
    }
    const bool is_eof = error == asio::error::eof || error == asio::ssl::error::stream_truncated;
    if (is_eof && parser_.head_complete() && parser_.finish_at_eof()) {
      end({});
      return;
    }
    if (write_failed_ && parser_.untouched()) {
      end(Error{Code::kUnavailable, "the server closed the connection while it was being asked"});
      return;
    }
    end(Error{Code::kUnavailable,
              is_eof ? (parser_.untouched() ? "the server closed the connection without an answer"
                                            : "the answer was cut off")
                     : "the connection broke: " + error.message()});
  }

  void on_bytes(std::string_view bytes) {
    while (!bytes.empty() && !parser_.done()) {
      std::string_view piece;
      const auto used = parser_.feed(bytes, piece);
      if (!used.ok()) {
        end(used.error());
        return;
      }
      if (!told_head_ && parser_.head_complete()) {
        told_head_ = true;
        reader_->on_head(parser_.head());
      }
      if (!piece.empty()) {
        num_body_bytes_ += int64_t(piece.size());
        if (num_body_bytes_ > client_->options.max_body_bytes) {
          end(Error{Code::kInvalidArgument, fmt::format("the answer is larger than {} bytes",
                                                        client_->options.max_body_bytes)});
          return;
        }
        if (!reader_->on_body(piece)) {
          end({});
          return;
        }
      }
      bytes.remove_prefix(*used);
    }
    if (!parser_.done()) {
      read();
      return;
    }
    if (parser_.keeps_alive() && bytes.empty() && write_done_) {
      client_->keep(std::move(connection_));
    }
    end({});
  }

  void end(const Status& status) {
    if (is_over_) return;
    is_over_ = true;
    timer_.cancel();
    if (connection_ != nullptr) connection_->close();
    const std::shared_ptr<ResponseReader> reader = std::move(reader_);
    reader->on_end(status);
  }

  const std::shared_ptr<HttpClient::Impl> client_;
  const std::string bytes_;
  std::shared_ptr<ResponseReader> reader_;
  ResponseParser parser_;
  asio::steady_timer timer_;
  const TimePoint deadline_;
  std::unique_ptr<Connection> connection_;
  std::vector<std::unique_ptr<Connection>> retired_;
  int64_t num_body_bytes_ = 0;
  bool is_reused_ = false;
  bool is_open_ = false;
  bool told_head_ = false;
  bool write_failed_ = false;
  bool write_done_ = false;
  bool is_over_ = false;
};

}  // namespace

HttpClient::HttpClient(asio::io_context& context, Origin origin, const ClientOptions& options)
    : impl_(std::make_shared<Impl>(context, std::move(origin), options)) {}
HttpClient::~HttpClient() = default;

void HttpClient::start(Request request, std::shared_ptr<ResponseReader> reader) {
  auto bytes = serialize(request, impl_->origin);
  auto exchange = std::make_shared<Exchange>(impl_, bytes.ok() ? std::move(*bytes) : std::string(),
                                             std::move(reader));
  bytes.ok() ? exchange->begin() : exchange->fail_soon(bytes.error());
}

const Origin& HttpClient::origin() const { return impl_->origin; }
int64_t HttpClient::num_connections_opened() const { return impl_->num_opened; }
int64_t HttpClient::num_reconnects() const { return impl_->num_reconnects; }

}  // namespace octavo::client
