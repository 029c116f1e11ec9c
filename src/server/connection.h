#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "server/channel.h"
#include "server/http_parser.h"
#include "server/state.h"
#include "server/transport.h"

namespace octavo::server {

class Connection;

/// What the connections of one I/O thread share with it.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  virtual boost::asio::io_context& context() = 0;
  /// The same, for those that may outlive the server.
  virtual std::shared_ptr<boost::asio::io_context> shared_context() = 0;
  /// 64 KiB to read into; its content is used before the next read of any connection.
  virtual std::span<char> scratch() = 0;
  /// The Date header's value, renewed each second.
  virtual std::string_view date() = 0;
  /// `connection` is closed; drops the owner's reference.
  virtual void closed(Connection& connection) = 0;
};

/// One client: reads requests, hands them to their routes, writes the answers, keeps the limits.
/// Everything happens on its I/O thread; other threads reach it through a Channel.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(ConnectionOwner& owner, ServerState& state, int fd, std::string client);
  ~Connection();

  void start();
  /// Answers 503 and closes: there are too many connections.
  void refuse();
  /// Closes as soon as nothing is owed to the client.
  void close_when_idle();
  /// Closes now; a request in progress sees its client go.
  void close();
  /// Waits for a first or a further request and owes nothing.
  bool idle() const {
    return channel_ == nullptr && parser_.idle() && inbox_.empty() && unsent() == 0 && !lingering_;
  }

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  // Reading.
  void wait_readable(boost::asio::posix::descriptor_base::wait_type type);
  void on_readable();
  void on_bytes(std::string_view bytes);
  void on_eof();
  void advance();
  bool feed_parser();
  bool may_advance() const;
  // One request.
  bool on_head();
  void on_request();
  void refuse_early(openai::HttpResponse response, bool counted);
  void on_parse_failure();
  void answer_locally(const Route& route, openai::HttpRequest request);
  void start_handler(const Route& route, openai::HttpRequest request);
  openai::HttpRequest make_request();
  bool hold_body_bytes();
  void release_body_bytes();
  bool count_outbox();
  // Answering.
  void on_channel();
  void send_response(openai::HttpResponse response);
  void send_stream_head(HeaderList headers);
  void append_stream(std::string_view bytes);
  void finish_request();
  void record(int64_t response_bytes);
  void log_access(int status);
  void add_common_headers(HeaderList& headers) const;
  // Writing.
  void flush();
  void on_all_sent();
  void linger();
  size_t unsent() const { return outbox_.size() - sent_; }
  // Time.
  TimePoint deadline() const;
  void arm_timer();
  void on_timer();

  ConnectionOwner& owner_;
  ServerState& state_;
  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer timer_;
  std::unique_ptr<Transport> transport_;
  const std::string client_;

  RequestParser parser_;
  std::string inbox_;   // bytes after the current request
  std::string outbox_;  // bytes to send, of which sent_ are gone
  size_t sent_ = 0;
  std::shared_ptr<Channel> channel_;  // of the request in progress

  // The request in progress.
  RouteMatch match_;
  TargetParts target_;
  std::string method_;
  std::string raw_target_;
  std::string request_id_;
  HeaderList cors_headers_;
  int version_minor_ = 1;
  int status_ = 0;
  bool keep_alive_ = true;
  bool head_seen_ = false;
  bool counted_ = true;  // in the http_* series
  bool streaming_ = false;
  bool chunked_ = false;
  int64_t request_bytes_ = 0;
  int64_t held_bytes_ = 0;
  int64_t counted_outbox_ = 0;  // part of the server's held_response_bytes
  double started_s_ = 0.0;

  bool closed_ = false;
  bool reading_ = false;
  bool writing_ = false;
  bool backlogged_ = false;  // the client does not take what there is to send
  bool advancing_ = false;
  bool read_closed_ = false;
  bool close_after_flush_ = false;
  bool lingering_ = false;
  bool served_one_ = false;
  TimePoint phase_start_;  // of the wait for a head, of the head, or of the body
  TimePoint last_sent_;    // last progress of writing
  TimePoint last_event_;   // last bytes of a stream
  TimePoint armed_for_ = TimePoint::max();
};

}  // namespace octavo::server
