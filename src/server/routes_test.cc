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

std::set<std::string_view> paths_of(std::span<const Route> routes,
                                    const RouteConditions& conditions) {
  std::set<std::string_view> paths;
  for (const Route& route : existing_routes(routes, conditions)) paths.insert(route.path);
  return paths;
}

TEST(Routes, ARowExistsWhenTaskFlagAndVariableSaySo) {
  const auto handler = [](const ServerState&, const openai::HttpRequest&) {
    return openai::HttpResponse();
  };
  const Route rows[] = {
      {.methods = "POST",
       .path = "/v1/completions",
       .local = handler,
       .task = engine::Task::kGenerate},
      {.methods = "POST", .path = "/v1/embeddings", .local = handler, .task = engine::Task::kPool},
      {.methods = "GET",
       .path = "/load",
       .local = handler,
       .flag = [](const config::Config& c) { return c.server.enable_server_load_tracking; }},
      {.methods = "POST", .path = "/profile", .local = handler, .variable = "PROFILE"},
      {.methods = "POST", .path = "/reset", .scope = Scope::kDev, .local = handler},
  };
  using Paths = std::set<std::string_view>;
  EXPECT_EQ(paths_of(rows, {}), Paths{"/v1/completions"});
  EXPECT_EQ(paths_of(rows, {.task = engine::Task::kPool}), Paths{"/v1/embeddings"});
  config::Config config;
  EXPECT_EQ(paths_of(rows, {.config = &config}), Paths{"/v1/completions"});
  config.server.enable_server_load_tracking = true;
  EXPECT_EQ(paths_of(rows, {.config = &config}), (Paths{"/v1/completions", "/load"}));
  const auto variables = [](std::string_view set, std::string value) {
    return [set, value](std::string_view name) {
      return name == set ? std::optional(value) : std::nullopt;
    };
  };
  EXPECT_EQ(paths_of(rows, {.variable = variables("PROFILE", "1")}),
            (Paths{"/v1/completions", "/profile"}));
  EXPECT_EQ(paths_of(rows, {.variable = variables("PROFILE", "0")}), Paths{"/v1/completions"});
  EXPECT_EQ(paths_of(rows, {.variable = variables("VLLM_SERVER_DEV_MODE", "1")}),
            (Paths{"/v1/completions", "/reset"}));
}

TEST_F(RealRoutesTest, APoolingModelHasNoRouteThatGenerates) {
  options.task = engine::Task::kPool;
  start_real();
  EXPECT_EQ(ask(post("/v1/completions", "{}")).status, 404);
  EXPECT_EQ(ask(post("/v1/chat/completions", "{}")).status, 404);
  EXPECT_EQ(ask(get("/health")).status, 200);
}

TEST_F(RealRoutesTest, AGeneratingModelHasNoEmbeddings) {
  start_real();
  EXPECT_EQ(ask(post("/v1/embeddings", "{}")).status, 404);
  EXPECT_EQ(ask(get("/v1/completions")).status, 405) << "it exists";
}

}  // namespace
}  // namespace octavo::server::test
