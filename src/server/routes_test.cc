#include "server/routes.h"

#include <set>

#include "server/test_support.h"

namespace octavo::server::test {
namespace {

TEST(Routes, EveryRowHasOneHandlerAndNoPathTwice) {
  std::set<std::string_view> paths;
  for (const Route& route : all_routes()) {
    EXPECT_NE(route.local == nullptr, route.handler == nullptr) << route.path;
    EXPECT_TRUE(paths.insert(route.path).second) << route.path;
    EXPECT_TRUE(route.path.starts_with('/'));
    if (route.generates) {
      EXPECT_EQ(route.lane, Lane::kWorker) << route.path << " would hold the I/O thread";
    }
  }
}

TEST(Routes, OnlyTheHealthChecksArePublic) {
  std::set<std::string_view> open;
  for (const Route& route : all_routes()) {
    if (route.scope == Scope::kPublic) open.insert(route.path);
  }
  EXPECT_EQ(open, (std::set<std::string_view>{"/health", "/ping", "/version", "/live", "/ready"}));
}

/// The real table with a frontend that says what the test wants.
class RealRoutesTest : public ServerTest {
 protected:
  void start_real() {
    options.routes = all_routes();
    options.metrics_text = [] { return std::string("# nothing\n"); };
    api_.frontend = &frontend;
    start();
  }
  FakeFrontend frontend;
};

TEST_F(RealRoutesTest, HealthFollowsTheEngine) {
  start_real();
  for (const std::string_view path : {"/health", "/ping", "/live", "/ready"}) {
    const Answer answer = ask(get(path));
    EXPECT_EQ(answer.status, 200) << path;
    EXPECT_EQ(answer.body, "");
  }
  frontend.dead.store(true);
  for (const std::string_view path : {"/health", "/ping", "/live", "/ready"}) {
    const Answer answer = ask(get(path));
    EXPECT_EQ(answer.status, 503) << path;
    EXPECT_EQ(answer.body, "");
  }
}

TEST_F(RealRoutesTest, ReadyEndsWithTheDrainAndHealthDoesNot) {
  start_real();
  server->begin_drain();
  EXPECT_EQ(ask(get("/ready")).status, 503);
  EXPECT_EQ(ask(get("/health")).status, 200);
  EXPECT_EQ(ask(post("/v1/completions", "{}")).status, 503);
}

TEST_F(RealRoutesTest, MetricsAndLoad) {
  start_real();
  const Answer metrics = ask(get("/metrics"));
  EXPECT_EQ(metrics.body, "# nothing\n");
  EXPECT_EQ(metrics.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(ask(get("/load")).body, R"({"server_load":0})");
}

}  // namespace
}  // namespace octavo::server::test
