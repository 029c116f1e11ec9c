#include "server/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <exception>

#include "base/log.h"

namespace octavo::server {
namespace {

using boost::asio::posix::descriptor_base;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr size_t kMaxInboxBytes = 64 << 10;      // pipelined bytes kept while a request runs
constexpr size_t kMaxQueuedAnswers = 256 << 10;  // unsent bytes before pipelining pauses
constexpr auto kLingerTime = seconds(2);
constexpr int kMaxReadsInARow = 4;

}  // namespace

Connection::Connection(ConnectionOwner& owner, ServerState& state, int fd, std::string client)
    : owner_(owner),
      state_(state),
      socket_(owner.context(), fd),
      timer_(owner.context()),
      transport_(state.tls ? state.tls->accept(fd) : make_plain_transport(fd)),
      client_(std::move(client)),
      parser_({state.options.config.max_header_bytes, state.options.config.max_header_count,
               state.options.config.max_request_body_bytes}),
      phase_start_(steady_clock::now()),
      last_sent_(phase_start_) {
  state_.num_connections.fetch_add(1);
}

Connection::~Connection() { state_.num_connections.fetch_sub(1); }

void Connection::start() {
  arm_timer();
  on_readable();
}

void Connection::refuse() {
  keep_alive_ = false;
  counted_ = false;
  method_ = "-";
  openai::HttpResponse response =
      error_object(503, "ServiceUnavailableError", "The server has too many open connections.");
  response.headers.emplace_back("retry-after", "1");
  send_response(std::move(response));
  close_after_flush_ = true;
  flush();
  if (!closed_) arm_timer();
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  const auto self = shared_from_this();
  if (channel_) {
    channel_->client_gone(/*may_still_read=*/false);
    if (status_ != 0) record(0);  // the started response ends here
    state_.num_open_requests.fetch_sub(1);
    if (match_.route != nullptr && match_.route->generates) state_.server_load.fetch_sub(1);
    channel_ = nullptr;
  }
  release_body_bytes();
  outbox_.clear();
  sent_ = 0;
  count_outbox();
  boost::system::error_code ignored;
  timer_.cancel();
  socket_.close(ignored);
  owner_.closed(*this);
}

void Connection::close_when_idle() {
  if (closed_) return;
  keep_alive_ = false;
  if (channel_) return;
  close_after_flush_ = true;
  if (unsent() == 0) return close();
  arm_timer();
}

// ---- reading ----

void Connection::wait_readable(descriptor_base::wait_type type) {
  if (closed_ || reading_ || read_closed_) return;
  reading_ = true;
  auto self = shared_from_this();
  socket_.async_wait(type, [self](const boost::system::error_code& error) {
    self->reading_ = false;
    if (!error && !self->closed_) self->on_readable();
  });
}

void Connection::on_readable() {
  reading_ = true;  // nothing below starts another wait
  for (int i = 0; i < kMaxReadsInARow; ++i) {
    if (closed_ || read_closed_) return;
    if (!lingering_ && inbox_.size() >= kMaxInboxBytes) {
      reading_ = false;  // resumed by advance()
      return;
    }
    const std::span<char> buffer = owner_.scratch();
    const IoResult result = transport_->read(buffer);
    if (result.kind == IoResult::Kind::kDone) {
      on_bytes({buffer.data(), result.count});
      continue;
    }
    reading_ = false;
    if (result.kind == IoResult::Kind::kEof) return on_eof();
    if (result.kind == IoResult::Kind::kError) return close();
    return wait_readable(result.kind == IoResult::Kind::kWantRead ? descriptor_base::wait_read
                                                                  : descriptor_base::wait_write);
  }
  // Others on this thread have their turn first.
  auto self = shared_from_this();
  boost::asio::post(owner_.context(), [self] {
    self->reading_ = false;
    if (!self->closed_) self->on_readable();
  });
}

void Connection::on_bytes(std::string_view bytes) {
  if (lingering_) return;  // read only so that our last answer is not reset away
  inbox_ += bytes;
  advance();
}

// A client that closed its sending side has gone, as far as a generation is concerned: a close and
// a half-close look alike. Answers that need no engine are still delivered.
void Connection::on_eof() {
  read_closed_ = true;
  if (channel_) {
    if (channel_->client_gone(/*may_still_read=*/true)) close();
    return;
  }
  if (!inbox_.empty() && unsent() >= kMaxQueuedAnswers) return;  // on_all_sent() goes on
  close_after_flush_ = true;
  if (unsent() == 0) close();
}

bool Connection::may_advance() const {
  return !closed_ && channel_ == nullptr && !close_after_flush_ && !lingering_ &&
         unsent() < kMaxQueuedAnswers;
}

// Handles requests from the inbox until one is in progress or bytes run out. A loop, not recursion:
// thousands of pipelined requests may be answered in one go.
void Connection::advance() {
  if (advancing_) return;
  advancing_ = true;
  while (may_advance() && !inbox_.empty() && feed_parser()) {
  }
  advancing_ = false;
  if (closed_) return;
  flush();
  if (closed_) return;
  if (channel_ == nullptr && read_closed_) {
    close_after_flush_ = true;
    if (unsent() == 0) return close();
  }
  arm_timer();
  if (!reading_ && inbox_.size() < kMaxInboxBytes) wait_readable(descriptor_base::wait_read);
}

// One turn of the parser; false when it cannot go on now.
bool Connection::feed_parser() {
  const bool was_idle = parser_.idle();
  const size_t used = parser_.feed(inbox_);
  inbox_.erase(0, used);
  if (was_idle && !parser_.idle()) {
    phase_start_ = steady_clock::now();
    started_s_ = state_.options.clock->monotonic_s();
  }
  if (parser_.failed()) {
    on_parse_failure();
    return false;
  }
  if (parser_.head_complete() && !head_seen_) {
    head_seen_ = true;
    if (!on_head()) return !closed_;
  }
  if (parser_.head_complete() && !hold_body_bytes()) return false;
  if (parser_.done()) on_request();
  return !closed_;
}

// ---- one request ----

// Judges by the head alone, so that a stranger cannot make us read a body. False when answered.
bool Connection::on_head() {
  const ParsedRequest& request = parser_.request();
  phase_start_ = steady_clock::now();
  const config::ServerConfig& config = state_.options.config;
  method_ = request.method;
  raw_target_ = request.target;
  version_minor_ = request.version_minor;
  keep_alive_ = request.keep_alive;
  request_bytes_ = request.content_length.value_or(0);
  counted_ = true;
  status_ = 0;
  target_ = split_target(request.target, config.root_path);
  match_ = match_route(state_.routes, method_, target_.path);
  cors_headers_.clear();
  state_.cors.append_headers(request, cors_headers_);
  request_id_.clear();
  if (config.enable_request_id_headers) {
    request_id_ = request.header("x-request-id");
    if (request_id_.empty()) request_id_ = random_uuid_hex();
  }
  if (auto preflight = state_.cors.preflight(request)) {
    cors_headers_.clear();  // the answer has them
    refuse_early(std::move(*preflight), /*counted=*/false);
    return false;
  }
  if (state_.needs_key(match_.same_path, method_) &&
      !state_.auth.allows(request.header("authorization"))) {
    openai::HttpResponse response;
    response.status = 401;
    response.body = R"({"error":"Unauthorized"})";
    refuse_early(std::move(response), /*counted=*/false);
    return false;
  }
  if (match_.route == nullptr) {
    openai::HttpResponse response = detail_response(match_.same_path ? 405 : 404);
    if (match_.same_path) {
      response.headers.emplace_back("allow", allow_header(match_.same_path->methods));
    }
    refuse_early(std::move(response), /*counted=*/true);
    return false;
  }
  if (match_.route->generates && state_.draining.load()) {
    keep_alive_ = false;
    openai::HttpResponse response =
        error_object(503, "ServiceUnavailableError", "The server is shutting down.");
    response.headers.emplace_back("retry-after", "5");
    refuse_early(std::move(response), /*counted=*/true);
    return false;
  }
  if (request.expect_continue && !parser_.done() && inbox_.empty()) {
    outbox_ += "HTTP/1.1 100 Continue\r\n\r\n";
    flush();
  }
  return !closed_;
}

// The body has not been read: after a small one the connection could go on, but closing is simpler
// to get right. Requests without a body keep their connection.
void Connection::refuse_early(openai::HttpResponse response, bool counted) {
  counted_ = counted;
  if (!parser_.done()) keep_alive_ = false;
  send_response(std::move(response));
  finish_request();
}

void Connection::on_parse_failure() {
  const ParseFailure& failure = parser_.failure();
  const ParsedRequest& request = parser_.request();
  keep_alive_ = false;
  version_minor_ = 1;
  counted_ = head_seen_;
  if (!head_seen_) {
    method_ = request.method.empty() ? "-" : request.method;
    raw_target_ = request.target.empty() ? "-" : request.target;
    match_ = {};
    cors_headers_.clear();
    request_id_.clear();
  }
  send_response(error_object(failure.status, status_phrase(failure.status), failure.message));
  finish_request();
}

bool Connection::hold_body_bytes() {
  const int64_t growth = int64_t(parser_.request().body.size()) - held_bytes_;
  held_bytes_ += growth;
  if (state_.held_body_bytes.fetch_add(growth) + growth <= state_.options.max_held_body_bytes) {
    return true;
  }
  openai::HttpResponse response = error_object(
      503, "ServiceUnavailableError", "The bodies of all open requests fill their memory limit.");
  response.headers.emplace_back("retry-after", "1");
  keep_alive_ = false;
  refuse_early(std::move(response), /*counted=*/true);
  return false;
}

// Keeps this connection's part of the server's figure; false when all answers together pass their
// limit. What has been sent but not yet removed from the outbox counts: it is memory.
bool Connection::count_outbox() {
  const int64_t growth = int64_t(outbox_.size()) - counted_outbox_;
  counted_outbox_ += growth;
  const int64_t held = state_.held_response_bytes.fetch_add(growth) + growth;
  return growth <= 0 || held <= state_.options.max_held_response_bytes;
}

void Connection::release_body_bytes() {
  state_.held_body_bytes.fetch_sub(held_bytes_);
  held_bytes_ = 0;
}

openai::HttpRequest Connection::make_request() {
  ParsedRequest& parsed = parser_.request();
  openai::HttpRequest request;
  request.method = method_;
  request.path = target_.path;
  request.query = target_.query;
  request.headers = std::move(parsed.headers);
  request.body = std::move(parsed.body);
  request.client = client_;
  return request;
}

void Connection::on_request() {
  const Route& route = *match_.route;
  openai::HttpRequest request = make_request();
  if (route.local != nullptr) return answer_locally(route, std::move(request));
  start_handler(route, std::move(request));
}

void Connection::answer_locally(const Route& route, openai::HttpRequest request) {
  openai::HttpResponse response;
  try {
    response = route.local(state_, request);
  } catch (const std::exception&) {
    log::error(log::Source::kApiServer, "A request handler failed");
    response = error_object(500, "InternalServerError", "Internal server error");
  }
  send_response(std::move(response));
  finish_request();
}

void Connection::start_handler(const Route& route, openai::HttpRequest request) {
  std::weak_ptr<Connection> weak = weak_from_this();
  channel_ = std::make_shared<Channel>(size_t(state_.options.config.max_buffered_response_bytes),
                                       [weak, context = owner_.shared_context()] {
                                         boost::asio::post(*context, [weak] {
                                           if (auto self = weak.lock()) self->on_channel();
                                         });
                                       });
  state_.num_open_requests.fetch_add(1);
  if (route.generates) state_.server_load.fetch_add(1);
  auto exchange = std::make_shared<ServerExchange>(channel_, state_.pool);
  const openai::ApiContext& api = *state_.options.api;
  if (route.lane == Lane::kIo) {
    try {
      route.handler(api, std::move(request), exchange);
    } catch (const std::exception&) {  // dropping the exchange answers 500
      log::error(log::Source::kApiServer, "A request handler failed");
    }
    return;
  }
  auto work = [handler = route.handler, &api, request = std::move(request), exchange]() mutable {
    handler(api, std::move(request), std::move(exchange));
  };
  if (exchange->start(std::move(work))) return;
  openai::HttpResponse response =
      error_object(503, "ServiceUnavailableError", "Too many requests wait to be read.");
  response.headers.emplace_back("retry-after", "1");
  exchange->respond(std::move(response));
}

// ---- answering ----

void Connection::on_channel() {
  if (closed_ || channel_ == nullptr) return;
  Channel::Pending pending = channel_->take();
  if (pending.cut) return close();
  if (pending.response) {
    send_response(std::move(*pending.response));
    return finish_request();
  }
  if (pending.begin) send_stream_head(std::move(pending.headers));
  append_stream(pending.bytes);
  if (!count_outbox()) return close();  // cut, as a stream beyond its own limit is
  if (pending.abandoned) {
    if (streaming_) return close();  // no end mark: the client can tell
    send_response(error_object(500, "InternalServerError", "Internal server error"));
    return finish_request();
  }
  if (pending.end) {
    if (chunked_) outbox_ += "0\r\n\r\n";
    return finish_request();
  }
  channel_->set_unsent_bytes(unsent());
  flush();
  if (!closed_) arm_timer();
}

void Connection::add_common_headers(HeaderList& headers) const {
  for (const auto& header : cors_headers_) headers.push_back(header);
  if (request_id_.empty()) return;
  for (const auto& [name, value] : headers) {
    if (equals_ignoring_case(name, "x-request-id")) return;
  }
  headers.emplace_back("x-request-id", request_id_);
}

void Connection::send_response(openai::HttpResponse response) {
  const int64_t held = state_.held_response_bytes.load() + int64_t(response.body.size());
  if (held > state_.options.max_held_response_bytes && response.status < 400) {
    response = error_object(503, "ServiceUnavailableError",
                            "The answers that clients have not read fill their memory limit.");
  }
  status_ = response.status;
  const bool service_busy = response.status == 503 || response.status == 429;
  bool has_retry_after = false;
  for (const auto& [name, value] : response.headers) {
    has_retry_after |= equals_ignoring_case(name, "retry-after");
  }
  if (service_busy && !has_retry_after) response.headers.emplace_back("retry-after", "1");
  if (state_.draining.load() && match_.route != nullptr && match_.route->generates) {
    keep_alive_ = false;
  }
  add_common_headers(response.headers);
  ResponseHead head;
  head.status = response.status;
  head.version_minor = version_minor_;
  head.keep_alive = keep_alive_;
  head.content_length = response.body.size();
  if (!response.body.empty()) head.content_type = response.content_type;
  head.date = owner_.date();
  append_head(outbox_, head, response.headers);
  if (method_ != "HEAD") outbox_ += response.body;
  count_outbox();
  log_access(response.status);
  record(int64_t(response.body.size()));
}

void Connection::send_stream_head(HeaderList headers) {
  status_ = 200;
  streaming_ = true;
  chunked_ = version_minor_ == 1;
  if (!chunked_ || state_.draining.load()) keep_alive_ = false;
  add_common_headers(headers);
  ResponseHead head;
  head.version_minor = version_minor_;
  head.keep_alive = keep_alive_;
  head.framing = chunked_ ? BodyFraming::kChunked : BodyFraming::kUntilClose;
  head.content_type = "text/event-stream; charset=utf-8";
  head.date = owner_.date();
  append_head(outbox_, head, headers);
  last_event_ = steady_clock::now();
  log_access(200);
}

void Connection::append_stream(std::string_view bytes) {
  if (bytes.empty()) return;
  last_event_ = steady_clock::now();
  if (chunked_) {
    append_chunk(outbox_, bytes);
  } else {
    outbox_ += bytes;
  }
}

void Connection::log_access(int status) {
  state_.access_log.record(client_, method_, raw_target_, version_minor_, status);
}

void Connection::record(int64_t response_bytes) {
  if (!counted_ || !state_.options.record) return;
  RequestRecord record;
  record.handler = match_.same_path != nullptr ? match_.same_path->path : std::string_view("none");
  record.method = method_;
  record.status = status_;
  record.request_bytes = request_bytes_;
  record.response_bytes = response_bytes;
  record.duration_s = state_.options.clock->monotonic_s() - started_s_;
  state_.options.record(record);
}

// The whole answer stands in the outbox: makes ready for the next request, or for the end.
void Connection::finish_request() {
  if (streaming_) record(0);
  if (channel_) {
    channel_->close();
    channel_ = nullptr;
    state_.num_open_requests.fetch_sub(1);
    if (match_.route != nullptr && match_.route->generates) state_.server_load.fetch_sub(1);
  }
  release_body_bytes();
  parser_.reset();
  head_seen_ = streaming_ = chunked_ = false;
  status_ = 0;
  served_one_ = true;
  phase_start_ = steady_clock::now();
  if (!keep_alive_) {
    close_after_flush_ = true;
    inbox_.clear();
  }
  if (!advancing_) advance();
}

// ---- writing ----

void Connection::flush() {
  if (closed_ || writing_ || unsent() == 0) return;
  bool progress = false;
  while (unsent() > 0) {
    const IoResult result = transport_->write(std::string_view(outbox_).substr(sent_));
    if (result.kind == IoResult::Kind::kDone) {
      sent_ += result.count;
      progress = true;
      continue;
    }
    if (result.kind == IoResult::Kind::kError || result.kind == IoResult::Kind::kEof)
      return close();
    // A fresh backlog starts its time-out now; only progress renews it.
    if (progress || !backlogged_) last_sent_ = steady_clock::now();
    backlogged_ = true;
    if (sent_ > (1 << 20)) {
      outbox_.erase(0, sent_);
      sent_ = 0;
      count_outbox();
    }
    if (channel_) channel_->set_unsent_bytes(unsent());
    writing_ = true;
    auto self = shared_from_this();
    const auto type = result.kind == IoResult::Kind::kWantRead ? descriptor_base::wait_read
                                                               : descriptor_base::wait_write;
    socket_.async_wait(type, [self](const boost::system::error_code& error) {
      self->writing_ = false;
      if (error) return;
      self->flush();
      if (!self->closed_) self->arm_timer();
    });
    return;
  }
  on_all_sent();
}

void Connection::on_all_sent() {
  outbox_.clear();
  if (outbox_.capacity() > (256 << 10)) outbox_.shrink_to_fit();
  sent_ = 0;
  last_sent_ = steady_clock::now();
  if (backlogged_ && parser_.idle()) phase_start_ = last_sent_;  // the wait starts now
  backlogged_ = false;
  count_outbox();
  if (channel_) channel_->set_unsent_bytes(0);
  if (close_after_flush_) return read_closed_ ? close() : linger();
  if (!inbox_.empty() && !advancing_) advance();
}

// Closing with unread bytes in the socket would reset the connection and could destroy our answer
// on its way (RFC 9112 section 9.6): say that we are done, and read until the client is, briefly.
void Connection::linger() {
  if (lingering_) return;
  lingering_ = true;
  phase_start_ = steady_clock::now();
  transport_->shutdown_write();
  inbox_.clear();
  wait_readable(descriptor_base::wait_read);
  arm_timer();
}

// ---- time ----

Connection::TimePoint Connection::deadline() const {
  const config::ServerConfig& config = state_.options.config;
  if (lingering_) return phase_start_ + kLingerTime;
  TimePoint soonest = TimePoint::max();
  if (unsent() > 0) {
    soonest = last_sent_ + milliseconds(config.write_timeout_ms);
    // Nothing is waited for but the client's reading.
    if (close_after_flush_ || (channel_ == nullptr && parser_.idle())) return soonest;
  }
  if (channel_) {
    if (streaming_ && config.sse_keep_alive_interval_s > 0) {
      soonest = std::min(soonest, last_event_ + seconds(config.sse_keep_alive_interval_s));
    }
    return soonest;
  }
  if (head_seen_) return std::min(soonest, phase_start_ + milliseconds(config.body_timeout_ms));
  if (parser_.idle() && served_one_) {
    return std::min(soonest, phase_start_ + seconds(config.keep_alive_timeout_s));
  }
  return std::min(soonest, phase_start_ + milliseconds(config.header_timeout_ms));
}

// Deadlines mostly move away, so the timer is left alone until it fires and then set again.
void Connection::arm_timer() {
  const TimePoint when = deadline();
  if (closed_ || when >= armed_for_) return;
  armed_for_ = when;
  timer_.expires_at(when);
  auto self = shared_from_this();
  timer_.async_wait([self](const boost::system::error_code& error) {
    if (!error) self->on_timer();
  });
}

void Connection::on_timer() {
  if (closed_) return;
  armed_for_ = TimePoint::max();
  const TimePoint now = steady_clock::now();
  if (now < deadline()) return arm_timer();
  const bool write_stalled =
      unsent() > 0 && now >= last_sent_ + milliseconds(state_.options.config.write_timeout_ms);
  if (write_stalled || lingering_) return close();
  if (channel_) {  // a stream without news: a comment keeps proxies from cutting it
    append_stream(": keep-alive\n\n");
    flush();
    if (!closed_) arm_timer();
    return;
  }
  if (parser_.idle()) {
    close_when_idle();
    if (!closed_) arm_timer();
    return;
  }
  keep_alive_ = false;
  counted_ = head_seen_;
  if (!head_seen_) {
    method_ = "-";
    raw_target_ = "-";
    match_ = {};
    cors_headers_.clear();
    request_id_.clear();
  }
  version_minor_ = 1;
  send_response(error_object(408, "Request Timeout", "The request did not arrive in time."));
  finish_request();
}

}  // namespace octavo::server
