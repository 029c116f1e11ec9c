#include <dirent.h>

#include "server/channel.h"
#include "server/test_support.h"

namespace octavo::server::test {
namespace {

int num_descriptors() {
  int count = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count;
}

TEST_F(ServerTest, BL_101_MalformedRequestsAreAnsweredOnceAndClosed) {
  start();
  for (const std::string_view bytes : {
           "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcGET "
           "/health HTTP/1.1\r\nHost: x\r\n\r\n",
           "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: "
           "chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n",
           "GET /health HTTP/1.1\nHost: x\n\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n",
       }) {
    RawClient client(port);
    client.send(bytes);
    EXPECT_EQ(client.read_answer().status, 400);
    client.half_close();
    EXPECT_TRUE(client.ends());
    EXPECT_EQ(client.buffer(), "") << "one request must never become two";
  }
  EXPECT_EQ(held_.num_calls.load(), 0);
}

TEST_F(ServerTest, BL_101_LargeAndManyHeaders) {
  start();
  RawClient client(port);
  client.send("GET /health HTTP/1.1\r\nHost: x\r\nX: " + std::string(1 << 20, 'a') + "\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 431);
  std::string many = "GET /health HTTP/1.1\r\nHost: x\r\n";
  for (int i = 0; i < 5000; ++i) many += "A: 1\r\n";
  EXPECT_EQ(ask(many + "\r\n").status, 431);
}

TEST_F(ServerTest, BL_101_AHeaderWithoutEndIsCutByItsDeadline) {
  options.config.header_timeout_ms = 100;
  start();
  RawClient slow(port), silent(port);
  slow.send("GET /health HTTP/1.1\r\nHost");
  EXPECT_EQ(slow.read_answer().status, 408);
  EXPECT_TRUE(slow.ends());
  EXPECT_TRUE(silent.ends());
  EXPECT_EQ(silent.buffer(), "") << "nobody asked anything";
}

TEST_F(ServerTest, ABodyThatDoesNotArriveIsCutByItsDeadline) {
  options.config.body_timeout_ms = 100;
  start();
  RawClient client(port);
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
  EXPECT_EQ(client.read_answer().status, 408);
}

TEST_F(ServerTest, AnIdleConnectionIsClosedAfterTheKeepAliveTime) {
  options.config.keep_alive_timeout_s = 0;
  start();
  RawClient client(port);
  client.send(get("/health"));
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_TRUE(client.ends());
}

TEST_F(ServerTest, BL_102_BodiesInPiecesAreTheSameBody) {
  start();
  std::string chunked = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string body(20'000, 'z');
  for (size_t i = 0; i < body.size(); ++i) chunked += "1\r\nz\r\n";
  EXPECT_EQ(ask(chunked + "0\r\n\r\n").body, body);

  RawClient client(port);
  const std::string whole = post("/echo", "0123456789");
  client.send(whole.substr(0, 30));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // so that it is a piece of its own
  client.send(whole.substr(30, whole.size() - 34));
  client.send(whole.substr(whole.size() - 4));
  EXPECT_EQ(client.read_answer().body, "0123456789");
}

TEST_F(ServerTest, BL_102_ExpectContinueIsAnsweredBeforeTheBody) {
  start();
  RawClient client(port);
  client.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 100);
  client.send("abc");
  EXPECT_EQ(client.read_answer().body, "abc");
}

TEST_F(ServerTest, ExpectContinueIsNotAnsweredToAStranger) {
  options.config.api_key = {"k"};
  start();
  EXPECT_EQ(
      ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
          .status,
      401);
}

TEST_F(ServerTest, ATooLargeBodyIsRefusedBeforeItIsRead) {
  options.config.max_request_body_bytes = 1000;
  start();
  EXPECT_EQ(ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n").status, 413);
  // The client sends it all before it reads: it must still get the answer, not a reset.
  RawClient client(port);
  client.send(post("/echo", std::string(8 << 20, 'x')));
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.status, 413);
  EXPECT_NE(answer.body.find(R"("code":413)"), std::string::npos);
}

TEST_F(ServerTest, BodiesOfAllRequestsTogetherAreBounded) {
  options.max_held_body_bytes = 100'000;
  start();
  RawClient first(port);
  first.send(post("/hold", std::string(60'000, 'x')));
  held_exchange();
  EXPECT_EQ(ask(post("/echo", std::string(60'000, 'x'))).status, 503);
  held_exchange()->respond({});
  EXPECT_EQ(first.read_answer().status, 200);
  EXPECT_EQ(ask(post("/echo", std::string(60'000, 'x'))).status, 200);
}

TEST_F(ServerTest, BL_108_GarbageIsClosedAtOnce) {
  start();
  const std::string hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  for (const std::string& bytes :
       {hello, std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), std::string(500, '\xff')}) {
    RawClient client(port);
    client.send(bytes);
    const int status = client.read_answer().status;
    EXPECT_TRUE(status == 400 || status == 505) << status;
    client.half_close();
    EXPECT_TRUE(client.ends());
  }
  EXPECT_EQ(ask(get("/health")).status, 200);
}

TEST_F(ServerTest, BL_092_AClientThatLeavesIsNoticedWhileItWaits) {
  start();
  auto client = std::make_unique<RawClient>(port);
  client->send(post("/hold", ""));
  const auto exchange = held_exchange();
  client.reset();
  EXPECT_TRUE(eventually([&] { return held_.num_disconnects.load() == 1; }, 1000));
  EXPECT_TRUE(eventually([&] { return server->num_open_requests() == 0; }));
  exchange->respond({});  // harmless
  EXPECT_EQ(server->num_connections(), 0);
}

TEST_F(ServerTest, BL_092_AClientThatLeavesItsStreamIsNoticed) {
  start();
  auto client = std::make_unique<RawClient>(port);
  client->send(post("/hold", ""));
  const auto exchange = held_exchange();
  exchange->begin_stream({});
  exchange->write("data: 1\n\n");
  EXPECT_TRUE(client->read_until("data: 1"));
  client.reset();
  EXPECT_TRUE(eventually([&] { return held_.num_disconnects.load() == 1; }, 1000));
  EXPECT_FALSE(exchange->write("data: 2\n\n"));
}

TEST_F(ServerTest, PipelinedBytesAreKeptWhileARequestRuns) {
  start();
  RawClient client(port);
  client.send(post("/hold", "") + get("/health"));
  held_exchange()->respond({});
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_EQ(client.read_answer().body, "/health");
  EXPECT_EQ(held_.num_disconnects.load(), 0);
}

TEST_F(ServerTest, AHalfClosedClientStillGetsQuickAnswers) {
  start();
  RawClient client(port);
  client.send(post("/echo", "a") + get("/health"));
  client.half_close();
  EXPECT_EQ(client.read_answer().body, "a");
  EXPECT_EQ(client.read_answer().body, "/health");
  EXPECT_TRUE(client.ends());
}

TEST_F(ServerTest, BL_097_AReaderThatDoesNotReadIsCutAtTheBufferLimit) {
  options.config.max_buffered_response_bytes = 1 << 20;
  start();
  RawClient client(port, 4096);
  client.send(post("/hold", ""));
  const auto exchange = held_exchange();
  exchange->begin_stream({});
  const std::string event(16 << 10, 'x');
  int written = 0;
  while (written < 10'000 && exchange->write(event)) ++written;
  EXPECT_LT(written, 10'000);
  EXPECT_TRUE(eventually([&] { return held_.num_disconnects.load() == 1; }));
  EXPECT_TRUE(eventually([&] { return server->num_connections() == 0; }));
}

TEST_F(ServerTest, BL_097_AReaderThatStallsIsCutAfterTheWriteTimeout) {
  options.config.write_timeout_ms = 150;
  options.config.max_buffered_response_bytes = 256 << 20;
  start();
  RawClient client(port, 4096);
  client.send(post("/hold", ""));
  const auto exchange = held_exchange();
  exchange->begin_stream({});
  EXPECT_TRUE(exchange->write(std::string(32 << 20, 'x')));
  EXPECT_TRUE(eventually([&] { return held_.num_disconnects.load() == 1; }));
}

TEST_F(ServerTest, BL_099_SilentStreamsGetComments) {
  options.config.sse_keep_alive_interval_s = 1;
  start();
  RawClient client(port);
  client.send(post("/hold", ""));
  const auto exchange = held_exchange();
  exchange->begin_stream({});
  EXPECT_TRUE(client.read_until(": keep-alive\n\n"));
  exchange->end_stream();
  EXPECT_TRUE(client.read_until("0\r\n\r\n"));
}

TEST_F(ServerTest, BL_098_IdleConnectionsMakeRoomForNewOnes) {
  options.config.max_connections = 50;
  start();
  const int descriptors = num_descriptors();
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 200; ++i) {
    idle.push_back(std::make_unique<RawClient>(port));
    if (i % 20 == 0) {
      EXPECT_EQ(ask(get("/health")).status, 200) << i;
    }
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask(post("/echo", "x")).status, 200);
  EXPECT_LE(server->num_connections(), 51);
  idle.clear();
  EXPECT_TRUE(eventually([&] { return num_descriptors() <= descriptors; }));
}

TEST_F(ServerTest, WhenEveryConnectionIsBusyANewOneGets503) {
  options.config.max_connections = 8;
  start();
  std::vector<std::unique_ptr<RawClient>> busy;
  for (size_t i = 0; i < 8; ++i) {
    busy.push_back(std::make_unique<RawClient>(port));
    busy.back()->send(post("/hold", ""));
    held_exchange(i);
  }
  RawClient client(port);
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.headers.count("retry-after"), 1u);
}

TEST_F(ServerTest, AFloodOfPipelinedRequestsThatNobodyReadsIsBounded) {
  start();
  RawClient client(port, 4096);
  std::string flood;
  for (int i = 0; i < 2000; ++i) flood += get("/health");
  std::thread sender([&] {
    for (int i = 0; i < 20; ++i) client.send(flood);
    client.half_close();
  });
  EXPECT_EQ(ask(get("/health")).status, 200);
  EXPECT_TRUE(client.ends());
  sender.join();
  size_t count = 0;
  for (size_t at = 0; (at = client.buffer().find("HTTP/1.1 200", at)) != std::string::npos; ++at) {
    ++count;
  }
  EXPECT_EQ(count, 40'000u);
}

TEST_F(ServerTest, AClientThatPipelinesAndReadsNothingIsCut) {
  options.config.keep_alive_timeout_s = 0;
  options.config.write_timeout_ms = 300;
  start();
  RawClient client(port, 4096);
  client.send(get("/large") + get("/large") + get("/large"));
  ASSERT_TRUE(eventually([&] { return server->num_connections() == 1; }));
  EXPECT_TRUE(eventually([&] { return server->num_connections() == 0; }, 5000));
}

TEST_F(ServerTest, AClientThatReadsSlowlyGetsAllItPipelined) {
  options.config.keep_alive_timeout_s = 0;
  options.config.write_timeout_ms = 2000;
  start();
  RawClient client(port, 4096);
  client.send(get("/large") + get("/large") + get("/health"));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(client.read_answer().body.size(), size_t{4} << 20);
  EXPECT_EQ(client.read_answer().body.size(), size_t{4} << 20);
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(ServerTest, AClientThatReadsNothingAfter408IsCut) {
  options.config.header_timeout_ms = 100;
  options.config.write_timeout_ms = 300;
  start();
  RawClient client(port, 4096);
  client.send(get("/large") + "GET /health HTTP/1.1\r\nHo");
  EXPECT_TRUE(eventually([&] { return server->num_connections() == 1; }));
  EXPECT_TRUE(eventually([&] { return server->num_connections() == 0; }, 5000));
}

TEST_F(ServerTest, UnreadAnswersOfAllConnectionsAreBoundedTogether) {
  options.max_held_response_bytes = 20 << 20;
  start();
  const std::atomic<int64_t>& held_bytes = server->state().held_response_bytes;
  RawClient first(port, 4096), second(port, 4096);
  first.send(get("/large?more"));
  ASSERT_TRUE(eventually([&] { return held_bytes.load() > 5 << 20; }));  // the kernel has the rest
  second.send(get("/large?more"));
  EXPECT_EQ(second.read_answer().status, 503);
  first.close();
  ASSERT_TRUE(eventually([&] { return held_bytes.load() == 0; }));
  second.send(get("/large?more"));
  EXPECT_EQ(second.read_answer().body.size(), size_t{16} << 20);
  EXPECT_TRUE(eventually([&] { return held_bytes.load() == 0; }));
}

TEST_F(ServerTest, ASmallLimitOfConnectionsIsKept) {
  options.config.max_connections = 2;
  start();
  EXPECT_EQ(server->state().max_connections, 2);
}

TEST_F(ServerTest, ALocalHandlerThatThrowsAnswers500) {
  start();
  RawClient client(port);
  client.send(get("/throw") + get("/health"));
  EXPECT_EQ(client.read_answer().status, 500);
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(ServerTest, AnIoThreadOutlivesWhatEscapesFromOneConnection) {
  std::atomic<bool> throws{true};
  options.record = [&](const RequestRecord&) {
    if (throws.exchange(false)) throw std::runtime_error("no memory for a label");
  };
  start();
  RawClient unlucky(port);
  unlucky.send(get("/health"));
  ASSERT_TRUE(eventually([&] { return !throws.load(); }));
  EXPECT_EQ(ask(get("/health")).status, 200);
}

TEST(ServerExchangeTest, WorkPostedAfterTheEndIsLetGo) {
  auto pool = std::make_shared<WorkerPool>(1, 8);
  auto channel = std::make_shared<Channel>(1 << 20, [] {});
  auto exchange = std::make_shared<ServerExchange>(channel, pool);
  pool->stop();
  auto token = std::make_shared<int>(0);
  exchange->post([token, exchange] {});
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_EQ(exchange.use_count(), 1);
}

}  // namespace
}  // namespace octavo::server::test
