#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "frontend/frontend.h"
#include "server/server.h"

// For the tests of this room: a raw client on a loopback socket, fake routes, and a server on a
// free port.

namespace octavo::server::test {

struct Answer {
  int status = 0;  // 0: the connection ended first
  std::map<std::string, std::string> headers;
  std::string body;
};

/// A blocking client that sends exactly the bytes it is given.
class RawClient {
 public:
  explicit RawClient(int port, int receive_buffer = 0) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(uint16_t(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      bytes.remove_prefix(size_t(n));
    }
  }
  void half_close() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  /// Reads until `mark` is in the buffer; false when the connection ends or 10 s pass.
  bool read_until(std::string_view mark) {
    while (buffer_.find(mark) == std::string::npos) {
      if (!read_some()) return false;
    }
    return true;
  }
  /// One response; bodies by Content-Length, chunked, or up to the end.
  Answer read_answer(bool is_head = false);
  /// True when the server closes within 10 s; what it sent is in `buffer()`.
  bool ends() {
    while (read_some()) {
    }
    return ended_;
  }
  std::string& buffer() { return buffer_; }

 private:
  bool read_some() {
    pollfd waiting{fd_, POLLIN, 0};
    if (poll(&waiting, 1, 10'000) != 1) return false;
    char bytes[65536];
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    if (n <= 0) {
      ended_ = true;
      return false;
    }
    buffer_.append(bytes, size_t(n));
    return true;
  }
  std::string take(size_t count) {
    while (buffer_.size() < count && read_some()) {
    }
    std::string out = buffer_.substr(0, count);
    buffer_.erase(0, count);
    return out;
  }

  int fd_;
  bool connected_ = false;
  bool ended_ = false;
  std::string buffer_;
};

inline Answer RawClient::read_answer(bool is_head) {
  Answer answer;
  if (!read_until("\r\n\r\n")) return answer;
  const std::string head = take(buffer_.find("\r\n\r\n") + 4);
  answer.status = std::stoi(head.substr(9, 3));
  size_t at = head.find("\r\n") + 2;
  while (head.compare(at, 2, "\r\n") != 0) {
    const size_t end = head.find("\r\n", at);
    const size_t colon = head.find(": ", at);
    answer.headers[head.substr(at, colon - at)] = head.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  if (answer.status == 100) return answer;
  if (is_head) return answer;
  if (answer.headers.count("content-length")) {
    answer.body = take(std::stoul(answer.headers["content-length"]));
  } else if (answer.headers.count("transfer-encoding")) {
    for (;;) {
      if (!read_until("\r\n")) return answer;
      const std::string line = take(buffer_.find("\r\n") + 2);
      const size_t size = std::stoul(line, nullptr, 16);
      answer.body += take(size);
      take(2);
      if (size == 0) break;
    }
  } else {
    ends();
    answer.body = take(buffer_.size());
  }
  return answer;
}

/// A flag that a test waits for instead of sleeping.
class Event {
 public:
  void set() {
    std::lock_guard lock(mutex_);
    done_ = true;
    ready_.notify_all();
  }
  bool wait(int timeout_ms = 10'000) {
    std::unique_lock lock(mutex_);
    return ready_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return done_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  bool done_ = false;
};

/// Waits until `condition` holds; polls because the fact lives in another thread's atomics.
inline bool eventually(const std::function<bool()>& condition, int timeout_ms = 10'000) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// What the fake handlers leave for the test.
struct Held {
  std::mutex mutex;
  std::vector<std::shared_ptr<openai::Exchange>> exchanges;
  std::vector<openai::HttpRequest> requests;
  std::atomic<int> num_disconnects{0};
  std::atomic<int> num_calls{0};
  Event released;  // /block waits for it
};
inline Held* held = nullptr;

/// The routes below; see test_routes.cc-like definitions in server_test.cc.
inline void echo(const openai::ApiContext&, openai::HttpRequest request,
                 std::shared_ptr<openai::Exchange> exchange) {
  ++held->num_calls;
  openai::HttpResponse response;
  response.content_type = "text/plain";
  response.body = request.body;
  exchange->respond(std::move(response));
}
/// Keeps the exchange for the test to answer.
inline void hold(const openai::ApiContext&, openai::HttpRequest request,
                 std::shared_ptr<openai::Exchange> exchange) {
  exchange->on_disconnect([] { ++held->num_disconnects; });
  std::lock_guard lock(held->mutex);
  held->requests.push_back(std::move(request));
  held->exchanges.push_back(std::move(exchange));
}
/// Five events, then the end.
inline void stream(const openai::ApiContext&, openai::HttpRequest,
                   std::shared_ptr<openai::Exchange> exchange) {
  exchange->begin_stream({});
  for (int i = 0; i < 5; ++i) exchange->write("data: " + std::to_string(i) + "\n\n");
  exchange->write("data: [DONE]\n\n");
  exchange->end_stream();
}
inline void drop(const openai::ApiContext&, openai::HttpRequest,
                 std::shared_ptr<openai::Exchange>) {}
inline void drop_stream(const openai::ApiContext&, openai::HttpRequest,
                        std::shared_ptr<openai::Exchange> exchange) {
  exchange->begin_stream({});
  exchange->write("data: 0\n\n");
}
inline void fail(const openai::ApiContext&, openai::HttpRequest,
                 std::shared_ptr<openai::Exchange>) {
  throw std::runtime_error("handler failed");
}
inline void block(const openai::ApiContext&, openai::HttpRequest,
                  std::shared_ptr<openai::Exchange> exchange) {
  ++held->num_calls;
  held->released.wait();
  exchange->respond({});
}
inline openai::HttpResponse throw_locally(const ServerState&, const openai::HttpRequest&) {
  throw std::runtime_error("handler failed");
}
inline openai::HttpResponse large(const ServerState&, const openai::HttpRequest& request) {
  openai::HttpResponse response;
  response.body.assign(request.query.empty() ? 4 << 20 : 16 << 20, 'x');
  return response;
}
inline openai::HttpResponse ok(const ServerState&, const openai::HttpRequest& request) {
  openai::HttpResponse response;
  response.content_type = "text/plain";
  response.body = request.path;
  return response;
}

inline constexpr Route kTestRoutes[] = {
    {.methods = "GET", .path = "/health", .local = ok},
    {.methods = "GET,POST", .path = "/ping", .local = ok},
    {.methods = "GET", .path = "/v1/models", .scope = Scope::kInference, .local = ok},
    {.methods = "POST",
     .path = "/echo",
     .scope = Scope::kInference,
     .lane = Lane::kWorker,
     .handler = echo},
    {.methods = "POST",
     .path = "/hold",
     .scope = Scope::kInference,
     .lane = Lane::kWorker,
     .handler = hold,
     .generates = true},
    {.methods = "GET,POST",
     .path = "/stream",
     .scope = Scope::kInference,
     .lane = Lane::kWorker,
     .handler = stream,
     .generates = true},
    {.methods = "GET",
     .path = "/drop",
     .scope = Scope::kInference,
     .lane = Lane::kWorker,
     .handler = drop},
    {.methods = "GET",
     .path = "/drop_stream",
     .scope = Scope::kInference,
     .lane = Lane::kWorker,
     .handler = drop_stream},
    {.methods = "GET",
     .path = "/fail",
     .scope = Scope::kInference,
     .lane = Lane::kWorker,
     .handler = fail},
    {.methods = "GET",
     .path = "/block",
     .scope = Scope::kInference,
     .lane = Lane::kWorker,
     .handler = block},
    {.methods = "GET", .path = "/throw", .local = throw_locally},
    {.methods = "GET", .path = "/large", .local = large},
    {.methods = "GET",
     .path = "/dev",
     .scope = Scope::kDev,
     .local = ok,
     .flag = [](const config::Config&) { return false; }},
    {.methods = "GET,POST,PUT",
     .path = "/metrics",
     .scope = Scope::kOperate,
     .local = ok,
     .is_prefix = true},
};

/// Counts what is asked of it; has no model.
class FakeFrontend final : public frontend::Frontend {
 public:
  Result<std::shared_ptr<frontend::OutputStream>> generate(frontend::GenerateRequest) override {
    return Error{Code::kUnavailable, "fake"};
  }
  Result<std::vector<std::shared_ptr<frontend::OutputStream>>> generate_all(
      std::vector<frontend::GenerateRequest>) override {
    return Error{Code::kUnavailable, "fake"};
  }
  void control(engine::ControlRequest::Kind, std::string,
               std::function<void(Status)> reply) override {
    reply(Error{Code::kUnavailable, "fake"});
  }
  const tokenizer::Tokenizer& tokenizer() const override { std::abort(); }
  const engine::EngineInfo& engine_info() const override { std::abort(); }
  const observability::EngineMetrics& metrics() const override { std::abort(); }
  bool engine_dead() const override { return dead.load(); }
  bool live() const override { return true; }
  bool ready() const override { return true; }
  int64_t num_unfinished() const override { return 0; }
  void begin_drain() override { drained.set(); }
  void abort_all() override {
    ++num_aborts;
    if (!aborts_work) return;
    for (auto& exchange : held->exchanges) {
      exchange->write("data: aborted\n\n");
      exchange->end_stream();
    }
  }
  void fail_all(const std::string& reason) override {
    failed_with = reason;
    ++num_failures;
    for (auto& exchange : held->exchanges) {
      exchange->write("data: failed\n\n");
      exchange->end_stream();
    }
  }
  void stop() override {}

  bool aborts_work = true;  // false: as an engine that is stuck in a step
  std::string failed_with;
  std::atomic<int> num_failures{0};
  std::atomic<bool> dead{false};
  std::atomic<int> num_aborts{0};
  Event drained;
};

/// A running server with the routes above.
class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    held = &held_;
    options.config.port = 0;
    options.config.disable_uvicorn_access_log = true;
    options.api = &api_;
    options.routes = kTestRoutes;
    options.clock = &clock_;
    options.record = [this](const RequestRecord& record) {
      std::lock_guard lock(held_.mutex);
      records.push_back({std::string(record.handler), std::string(record.method), record.status,
                         record.response_bytes});
    };
    api_.config = &config_;
  }
  ~ServerTest() override {
    held_.released.set();
    held_.exchanges.clear();
    server.reset();
    held = nullptr;
  }
  void start() {
    auto listener = Listener::bind(options.config);
    ASSERT_TRUE(listener.ok()) << listener.error().message;
    auto created = Server::create(std::move(*listener), options);
    ASSERT_TRUE(created.ok()) << created.error().message;
    server = std::move(*created);
    port = server->listener().port();
    ASSERT_TRUE(server->start().ok());
  }
  std::shared_ptr<openai::Exchange> held_exchange(size_t index = 0) {
    eventually([&] {
      std::lock_guard lock(held_.mutex);
      return held_.exchanges.size() > index;
    });
    std::lock_guard lock(held_.mutex);
    return held_.exchanges.at(index);
  }
  /// Sends `bytes` on a connection of its own and returns the answer.
  Answer ask(std::string_view bytes) {
    RawClient client(port);
    client.send(bytes);
    return client.read_answer();
  }
  static std::string get(std::string_view path, std::string_view headers = "") {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n" + std::string(headers) + "\r\n";
  }
  static std::string post(std::string_view path, std::string_view body,
                          std::string_view headers = "") {
    return "POST " + std::string(path) +
           " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
           std::string(headers) + "\r\n" + std::string(body);
  }
  struct Record {
    std::string handler, method;
    int status;
    int64_t response_bytes;
  };

  ServerOptions options;
  std::unique_ptr<Server> server;
  int port = 0;
  Held held_;
  std::vector<Record> records;

  config::Config config_;
  openai::ApiContext api_;

 private:
  SystemClock clock_;
};

}  // namespace octavo::server::test
