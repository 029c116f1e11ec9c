#include "server/serve_loop.h"

#include <csignal>
#include <cstdlib>

#include "server/test_support.h"

namespace octavo::server::test {
namespace {

class ServeLoopTest : public ServerTest {
 protected:
  void run() {
    auto listener = Listener::bind(options.config);
    ASSERT_TRUE(listener.ok());
    auto created = Server::create(std::move(*listener), options);
    ASSERT_TRUE(created.ok());
    server = std::move(*created);
    port = server->listener().port();
    loop = std::make_unique<ServeLoop>(*server, frontend, options.config);
    main_thread = std::thread([this] { exit_code = loop->run(); });
    ASSERT_TRUE(eventually([&] { return RawClient(port).connected(); }));
  }
  // A stream that is open, with its first event read.
  std::shared_ptr<openai::Exchange> open_stream(RawClient& client) {
    client.send(post("/hold", ""));
    auto exchange = held_exchange();
    exchange->begin_stream({});
    exchange->write("data: 1\n\n");
    EXPECT_TRUE(client.read_until("data: 1"));
    return exchange;
  }
  int join() {
    main_thread.join();
    return exit_code;
  }

  FakeFrontend frontend;
  std::unique_ptr<ServeLoop> loop;
  std::thread main_thread;
  int exit_code = -1;
};

TEST_F(ServeLoopTest, SigtermDrains) {
  run();
  RawClient client(port);
  const auto exchange = open_stream(client);
  ::kill(getpid(), SIGTERM);
  ASSERT_TRUE(frontend.drained.wait());
  EXPECT_EQ(ask(get("/health")).status, 200) << "the listener stays";
  const Answer refused = ask(post("/hold", ""));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("connection"), "close");
  exchange->write("data: 2\n\n");
  exchange->end_stream();
  EXPECT_TRUE(client.read_until("data: 2\n\n\r\n0\r\n\r\n"));
  EXPECT_EQ(join(), 0);
  EXPECT_EQ(frontend.num_aborts.load(), 0);
}

TEST_F(ServeLoopTest, ASecondSignalAbortsAtOnce) {
  run();
  RawClient client(port);
  open_stream(client);
  loop->notify_signal();
  ASSERT_TRUE(frontend.drained.wait());
  loop->notify_signal();
  EXPECT_TRUE(client.read_until("data: aborted"));
  EXPECT_EQ(join(), 0);
  EXPECT_EQ(frontend.num_aborts.load(), 1);
}

TEST_F(ServeLoopTest, TheDrainTimeoutAborts) {
  options.config.shutdown_timeout_s = 1;
  run();
  RawClient client(port);
  open_stream(client);
  loop->notify_signal();
  EXPECT_TRUE(client.read_until("data: aborted"));
  EXPECT_EQ(join(), 0);
}

TEST_F(ServeLoopTest, ATimeoutOfZeroAbortsWithTheFirstSignal) {
  options.config.shutdown_timeout_s = 0;
  run();
  RawClient client(port);
  open_stream(client);
  loop->notify_signal();
  EXPECT_TRUE(client.read_until("data: aborted"));
  EXPECT_EQ(join(), 0);
}

TEST_F(ServeLoopTest, AnEngineThatIsStuckIsNotWaitedForForever) {
  options.config.shutdown_timeout_s = 0;
  frontend.aborts_work = false;
  run();
  RawClient client(port);
  open_stream(client);
  loop->notify_signal();
  EXPECT_TRUE(client.read_until("data: failed\n\n\r\n0\r\n\r\n"));
  EXPECT_EQ(join(), 1);
  EXPECT_EQ(frontend.num_failures.load(), 1);
  EXPECT_FALSE(frontend.failed_with.empty());
}

TEST_F(ServeLoopTest, WithNothingOpenASignalEndsItQuickly) {
  run();
  RawClient idle(port);
  loop->notify_signal();
  EXPECT_EQ(join(), 0);
  EXPECT_TRUE(idle.ends());
}

TEST_F(ServeLoopTest, EngineDeathExitsWithOneOnceEverybodyIsAnswered) {
  run();
  RawClient client(port);
  const auto exchange = open_stream(client);
  const auto start = std::chrono::steady_clock::now();
  frontend.dead.store(true);
  exchange->write("data: {\"error\":{}}\n\n");
  exchange->end_stream();
  EXPECT_TRUE(client.read_until("error"));
  EXPECT_EQ(join(), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST_F(ServeLoopTest, EngineDeathCanBeSurvivedByFlag) {
  options.config.keep_alive_on_engine_death = true;
  run();
  frontend.dead.store(true);
  loop->notify_signal();
  EXPECT_EQ(join(), 1) << "shutting down with a dead engine is still a failure";
}

}  // namespace
}  // namespace octavo::server::test
