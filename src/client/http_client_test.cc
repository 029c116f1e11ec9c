#include "client/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>

#include "client/test_server.h"
#include "client/wait.h"

namespace octavo::client {
namespace {

using testing::HasSubstr;

constexpr const char* kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

Origin loopback(const TestServer& server) { return {false, "127.0.0.1", server.port()}; }
ClientOptions quick() {
  ClientOptions options;
  options.total_timeout_s = 5;
  return options;
}
Result<Response> get(const TestServer& server, ClientOptions options = quick()) {
  return fetch(loopback(server), {}, options, 1000);
}

struct Collect final : ResponseReader {
  void on_head(const ResponseHead& head) override { status = head.status; }
  bool on_body(std::string_view piece) override {
    body += piece;
    return true;
  }
  void on_end(const Status& end) override {
    is_over = true;
    error = end.ok() ? "" : end.error().message;
  }
  int status = 0;
  std::string body;
  std::string error;
  bool is_over = false;
};

TEST(HttpClient, SendsWhatItIsToldAndReadsTheAnswer) {
  std::string seen;
  TestServer server([&](int fd, int) {
    seen = read_request(fd);
    send_text(fd, kOk);
  });
  Request request{"POST", "/v1/x?y=1", {{"X-A", "b"}}, "body"};
  const auto answer = fetch(loopback(server), request, quick(), 1000);
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->head.status, 200);
  EXPECT_EQ(answer->body, "ok");
  EXPECT_THAT(seen, HasSubstr("POST /v1/x?y=1 HTTP/1.1\r\n"));
  EXPECT_THAT(seen, HasSubstr("\r\nX-A: b\r\nContent-Length: 4\r\n\r\nbody"));
}

TEST(HttpClient, AConnectionIsReusedAndReplacedOnceItIsStale) {
  // The first connection answers twice and is then closed; the third request needs a new one.
  TestServer server([](int fd, int number) {
    for (int i = 0; i < (number == 0 ? 2 : 1); ++i) {
      if (read_request(fd).empty()) return;
      send_text(fd, kOk);
    }
  });
  boost::asio::io_context context;
  HttpClient client(context, loopback(server), quick());
  for (int i = 0; i < 3; ++i) {
    auto reader = std::make_shared<Collect>();
    client.start({}, reader);
    context.restart();
    context.run();
    EXPECT_EQ(reader->body, "ok") << i << ": " << reader->error;
    if (i == 1) {  // the server has closed; wait until that is seen, then ask again
      EXPECT_EQ(client.num_connections_opened(), 1);
    }
  }
  EXPECT_EQ(client.num_connections_opened(), 2);
}

TEST(HttpClient, ARequestThatMeetsAClosingConnectionIsSentAgain) {
  // Reads the second request and closes without an answer: only the client can mend that.
  TestServer server([](int fd, int number) {
    if (read_request(fd).empty()) return;
    send_text(fd, kOk);
    if (number == 0) read_request(fd);
  });
  boost::asio::io_context context;
  HttpClient client(context, loopback(server), quick());
  for (int i = 0; i < 2; ++i) {
    auto reader = std::make_shared<Collect>();
    client.start({}, reader);
    context.restart();
    context.run();
    EXPECT_EQ(reader->body, "ok") << i << ": " << reader->error;
  }
  EXPECT_EQ(client.num_reconnects(), 1);
}

TEST(HttpClient, FailuresAreNamed) {
  TestServer silent([](int fd, int) { read_request(fd); });
  EXPECT_THAT(get(silent).error().message, HasSubstr("without an answer"));
  TestServer cut([](int fd, int) {
    read_request(fd);
    send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
  });
  EXPECT_THAT(get(cut).error().message, HasSubstr("cut off"));
  TestServer banner([](int fd, int) { send_text(fd, "SSH-2.0-x\r\n"); });
  EXPECT_THAT(get(banner).error().message, HasSubstr("not HTTP"));
  ClientOptions small = quick();
  small.max_body_bytes = 10;
  TestServer large([](int fd, int) {
    read_request(fd);
    send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + std::string(100, 'x'));
  });
  EXPECT_THAT(get(large, small).error().message, HasSubstr("larger than 10 bytes"));
  EXPECT_THAT(fetch({false, "no-such-host.invalid", 1}, {}, quick(), 10).error().message,
              HasSubstr("cannot be resolved"));
  EXPECT_THAT(fetch({false, "127.0.0.1", 1}, {}, quick(), 10).error().message,
              HasSubstr("cannot connect"));
  Request bad;
  bad.headers = {{"Authorization", "Bearer a\r\nX: y"}};
  EXPECT_THAT(fetch(loopback(cut), bad, quick(), 10).error().message,
              HasSubstr("header Authorization cannot be sent"));
}

TEST(HttpClient, TimeIsBounded) {
  TestServer slow([](int fd, int) {
    send_text(fd, "HTTP/1.1 200 OK\r\n");
    while (!read_request(fd).empty()) {
    }
  });
  ClientOptions options = quick();
  options.total_timeout_s = 0.1;
  const auto answer = get(slow, options);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kCancelled);
}

TEST(HttpClient, EnoughIsEnough) {
  TestServer endless([](int fd, int) {
    read_request(fd);
    send_text(fd, "HTTP/1.1 200 OK\r\n\r\n");
    const std::string block(1 << 16, 'x');
    char byte;
    while (::send(fd, block.data(), block.size(), MSG_NOSIGNAL) > 0 &&
           ::recv(fd, &byte, 1, MSG_DONTWAIT) != 0) {
    }
  });
  const auto answer = get(endless);
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_TRUE(answer->is_truncated);
  EXPECT_EQ(answer->body.size(), 1000u);
}

}  // namespace
}  // namespace octavo::client
