#include "server/server.h"

#include <sys/un.h>

#include "server/test_support.h"

namespace octavo::server::test {
namespace {

TEST_F(ServerTest, KeepsAConnectionForManyRequests) {
  start();
  RawClient client(port);
  for (int i = 0; i < 3; ++i) {
    client.send(post("/echo", "hello " + std::to_string(i)));
    const Answer answer = client.read_answer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "hello " + std::to_string(i));
  }
  EXPECT_EQ(server->num_connections(), 1);
}

TEST_F(ServerTest, PipelinedRequestsAreAnsweredInOrder) {
  start();
  RawClient client(port);
  std::string bytes;
  for (int i = 0; i < 100; ++i) {
    bytes += post("/echo", std::to_string(i)) + get("/health");
  }
  client.send(bytes);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(client.read_answer().body, std::to_string(i));
    EXPECT_EQ(client.read_answer().body, "/health");
  }
}

TEST_F(ServerTest, StreamsAsChunksAndKeepsTheConnection) {
  start();
  RawClient client(port);
  for (int i = 0; i < 2; ++i) {
    client.send(get("/stream"));
    const Answer answer = client.read_answer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("content-type"), "text/event-stream; charset=utf-8");
    EXPECT_EQ(answer.headers.at("transfer-encoding"), "chunked");
    EXPECT_EQ(answer.body,
              "data: 0\n\ndata: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4\n\ndata: [DONE]\n\n");
  }
}

TEST_F(ServerTest, Http10GetsAStreamUpToTheEndOfTheConnection) {
  start();
  RawClient client(port);
  client.send("GET /stream HTTP/1.0\r\n\r\n");
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.headers.count("transfer-encoding"), 0u);
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
}

TEST_F(ServerTest, EventsArriveWhenTheyAreWrittenNotAtTheEnd) {
  start();
  RawClient client(port);
  client.send(post("/hold", ""));
  const auto exchange = held_exchange();
  exchange->begin_stream({});
  EXPECT_TRUE(exchange->write("data: first\n\n"));
  EXPECT_TRUE(client.read_until("data: first\n\n"));
  EXPECT_TRUE(exchange->write("data: second\n\n"));
  EXPECT_TRUE(client.read_until("data: second\n\n"));
  exchange->end_stream();
  EXPECT_TRUE(client.read_until("0\r\n\r\n"));
  EXPECT_FALSE(exchange->write("late"));
}

TEST_F(ServerTest, HeadAnswersLikeGetWithoutABody) {
  start();
  RawClient client(port);
  client.send("HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n");
  const Answer answer = client.read_answer(/*is_head=*/true);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("content-length"), "7");
  client.send(get("/health"));
  EXPECT_EQ(client.read_answer().body, "/health");
}

TEST_F(ServerTest, UnknownPathsAndMethods) {
  start();
  RawClient client(port);
  client.send(get("/nothing"));
  const Answer missing = client.read_answer();
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.body, R"({"detail":"Not Found"})");
  client.send(get("/echo"));
  const Answer wrong = client.read_answer();
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.body, R"({"detail":"Method Not Allowed"})");
  EXPECT_EQ(wrong.headers.at("allow"), "POST");
  client.send("DELETE /health HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.read_answer().headers.at("allow"), "GET, HEAD");
  for (const std::string_view path : {"/health/", "//health", "/HEALTH", "/dev"}) {
    client.send(get(path));
    EXPECT_EQ(client.read_answer().status, 404) << path;
  }
  client.send(get("/metrics/anything"));
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(ServerTest, AbsoluteTargetsEscapesAndRootPath) {
  options.config.root_path = "/api/";
  start();
  EXPECT_EQ(ask(get("http://host:1/health?x=1")).body, "/health");
  EXPECT_EQ(ask(get("/he%61lth")).body, "/health");
  EXPECT_EQ(ask(get("/api/health")).body, "/health");
  EXPECT_EQ(ask(get("/apihealth")).status, 404);
}

TEST_F(ServerTest, AHandlerThatLetsGoOrThrowsIsA500) {
  start();
  EXPECT_EQ(ask(get("/drop")).status, 500);
  EXPECT_EQ(ask(get("/fail")).status, 500);
  RawClient client(port);
  client.send(get("/drop_stream"));
  EXPECT_TRUE(client.ends());
  EXPECT_EQ(client.buffer().find("\r\n0\r\n\r\n"), std::string::npos) << "must not look complete";
}

TEST_F(ServerTest, WorksPostedToAnExchangeRunInOrderAndOneAtATime) {
  start();
  RawClient client(port);
  client.send(post("/hold", ""));
  const auto exchange = held_exchange();
  exchange->begin_stream({});
  std::string expected;
  for (int i = 0; i < 500; ++i) {
    expected += std::to_string(i) + ",";
    exchange->post([exchange, i] { exchange->write(std::to_string(i) + ","); });
  }
  exchange->post([exchange] { exchange->end_stream(); });
  EXPECT_EQ(client.read_answer().body, expected);
}

TEST_F(ServerTest, BusyWorkersDoNotDelayHealthChecksAndOverflowIs503) {
  options.num_workers = 1;
  options.max_queued_requests = 1;
  start();
  RawClient first(port), second(port);
  first.send(get("/block"));
  // The worker has the first; the second waits; from then on there is no room.
  ASSERT_TRUE(eventually([&] { return held_.num_calls == 1; }));
  second.send(get("/block"));
  ASSERT_TRUE(eventually([&] { return server->num_open_requests() == 2; }));
  EXPECT_EQ(ask(get("/health")).status, 200);
  const Answer answer = ask(get("/block"));
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.headers.at("retry-after"), "1");
  held_.released.set();
  EXPECT_EQ(first.read_answer().status, 200);
}

TEST_F(ServerTest, DrainingRefusesNewGenerationsOnly) {
  start();
  RawClient open(port);
  open.send(post("/hold", ""));
  const auto exchange = held_exchange();
  exchange->begin_stream({});
  server->begin_drain();
  const Answer refused = ask(post("/hold", ""));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("connection"), "close");
  EXPECT_EQ(refused.headers.count("retry-after"), 1u);
  EXPECT_EQ(ask(get("/health")).status, 200);
  EXPECT_EQ(ask(post("/echo", "x")).body, "x");
  exchange->write("data: last\n\n");
  exchange->end_stream();
  EXPECT_TRUE(open.read_until("data: last\n\n\r\n0\r\n\r\n"));
  EXPECT_TRUE(eventually([&] { return server->num_open_requests() == 0; }));
}

TEST_F(ServerTest, StopDeliversWhatIsOnItsWayThenClosesEverything) {
  start();
  RawClient idle(port), open(port);
  open.send(post("/hold", ""));
  const auto exchange = held_exchange();
  openai::HttpResponse response;
  response.body = std::string(3 << 20, 'x');
  exchange->respond(std::move(response));
  EXPECT_TRUE(
      open.read_until("\r\n\r\n"));  // the answer has begun; most of it is still in the server
  std::thread stopper([&] { server->stop(5000); });
  EXPECT_TRUE(idle.ends());
  EXPECT_EQ(open.read_answer().body.size(), size_t{3} << 20);
  open.close();
  stopper.join();
  EXPECT_EQ(server->num_connections(), 0);
  EXPECT_FALSE(RawClient(port).connected());
}

TEST_F(ServerTest, RequestsAreRecordedOnceWithTheirRoute) {
  options.config.api_key = {"k"};
  start();
  const std::string key = "Authorization: Bearer k\r\n";
  EXPECT_EQ(ask(post("/echo", "abc", key)).status, 200);
  EXPECT_EQ(ask(get("/stream", key)).status, 200);
  EXPECT_EQ(ask(get("/nothing", key)).status, 404);
  EXPECT_EQ(ask(get("/echo", key)).status, 405);
  EXPECT_EQ(ask(get("/v1/models")).status, 401);
  EXPECT_TRUE(eventually([&] {
    std::lock_guard lock(held_.mutex);
    return records.size() >= 4;
  }));
  std::lock_guard lock(held_.mutex);
  ASSERT_EQ(records.size(), 4u);  // the 401 is not among them
  EXPECT_EQ(records[0].handler, "/echo");
  EXPECT_EQ(records[0].response_bytes, 3);
  EXPECT_EQ(records[1].handler, "/stream");
  EXPECT_EQ(records[1].response_bytes, 0);
  EXPECT_EQ(records[2].handler, "none");
  EXPECT_EQ(records[3].handler, "/echo");
  EXPECT_EQ(records[3].status, 405);
}

TEST_F(ServerTest, RequestIdHeaders) {
  options.config.enable_request_id_headers = true;
  start();
  EXPECT_EQ(ask(get("/health", "X-Request-Id: abc\r\n")).headers.at("x-request-id"), "abc");
  EXPECT_EQ(ask(get("/health")).headers.at("x-request-id").size(), 32u);
}

TEST_F(ServerTest, CrossOriginRequestsNeedAnAllowedOrigin) {
  options.config.allowed_origins = {"https://a.example"};
  options.config.api_key = {"k"};
  start();
  const std::string preflight = "Access-Control-Request-Method: POST\r\n";
  const auto options_request = [](std::string headers) {
    return "OPTIONS /echo HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n";
  };
  const Answer good = ask(options_request("Origin: https://a.example\r\n" + preflight));
  EXPECT_EQ(good.status, 200);
  EXPECT_EQ(good.headers.at("access-control-allow-origin"), "https://a.example");
  RawClient raw(port);
  raw.send(options_request("Connection: close\r\nOrigin: https://a.example\r\n" + preflight));
  EXPECT_TRUE(raw.ends());
  for (const std::string_view name : {"access-control-allow-origin:", "vary:"}) {
    const size_t first = raw.buffer().find(name);
    ASSERT_NE(first, std::string::npos) << name;
    EXPECT_EQ(raw.buffer().find(name, first + 1), std::string::npos) << name << " twice";
  }
  EXPECT_EQ(ask(options_request("Origin: https://b.example\r\n" + preflight)).status, 400);
  EXPECT_EQ(ask(get("/health", "Origin: https://b.example\r\n"))
                .headers.count("access-control-allow-origin"),
            0u);
  EXPECT_EQ(ask(get("/health", "Origin: https://a.example\r\n"))
                .headers.count("access-control-allow-origin"),
            1u);
}

TEST_F(ServerTest, SeveralIoThreads) {
  options.config.num_http_threads = 3;
  start();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 12; ++i) clients.push_back(std::make_unique<RawClient>(port));
  for (auto& client : clients) client->send(get("/stream") + post("/echo", "x"));
  for (auto& client : clients) {
    EXPECT_TRUE(client->read_answer().body.ends_with("[DONE]\n\n"));
    EXPECT_EQ(client->read_answer().body, "x");
  }
}

TEST(Listener, APortInUseIsAnErrorThatSaysSo) {
  config::ServerConfig config;
  config.port = 0;
  auto first = Listener::bind(config);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(first->listen().ok());
  config.port = first->port();
  const auto second = Listener::bind(config);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("already in use"), std::string::npos);
}

TEST(Listener, IsRefusingBeforeItListens) {
  config::ServerConfig config;
  config.port = 0;
  auto listener = Listener::bind(config);
  ASSERT_TRUE(listener.ok());
  EXPECT_FALSE(RawClient(listener->port()).connected());
}

TEST(Listener, SaysWhichAddressesAreOpenToOthers) {
  config::ServerConfig config;
  config.port = 0;
  EXPECT_TRUE(Listener::bind(config)->is_loopback());
  config.host = "";
  const auto open = Listener::bind(config);
  ASSERT_TRUE(open.ok());
  EXPECT_FALSE(open->is_loopback());
  EXPECT_TRUE(open->address().starts_with("0.0.0.0:"));
  config.host = "no such host";
  EXPECT_FALSE(Listener::bind(config).ok());
}

TEST_F(ServerTest, AnswersOnAUnixSocket) {
  const std::string path = ::testing::TempDir() + "octavo_" + std::to_string(getpid()) + ".sock";
  options.config.uds = path;
  start();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::string request = get("/health", "Connection: close\r\n");
  ASSERT_EQ(::send(fd, request.data(), request.size(), 0), ssize_t(request.size()));
  char bytes[16] = {};
  ASSERT_GT(::recv(fd, bytes, 12, MSG_WAITALL), 0);
  EXPECT_EQ(std::string(bytes), "HTTP/1.1 200");
  ::close(fd);
  EXPECT_FALSE(Listener::bind(options.config).ok()) << "a living server's socket is not replaced";
  server.reset();
  EXPECT_NE(::access(path.c_str(), F_OK), 0) << "the file is removed";
}

}  // namespace
}  // namespace octavo::server::test
