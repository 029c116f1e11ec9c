#include "server/auth.h"

#include "server/test_support.h"

namespace octavo::server::test {
namespace {

TEST(Authenticator, TakesAnyOfItsKeysAndNoOther) {
  const Authenticator auth({"one", "two", ""});
  EXPECT_TRUE(auth.allows("Bearer one"));
  EXPECT_TRUE(auth.allows("bearer two"));
  EXPECT_TRUE(auth.allows("BEARER two"));
  for (const std::string_view wrong :
       {"", "Bearer", "Bearer ", "Bearer three", "Bearer one ", "Bearer  one", "Basic one", "one",
        "Bearer on", "Bearerone"}) {
    EXPECT_FALSE(auth.allows(wrong)) << wrong;
  }
}

TEST(Authenticator, WithoutKeysEverybodyIsLetIn) {
  EXPECT_TRUE(Authenticator({}).allows(""));
  EXPECT_FALSE(Authenticator({""}).enabled());
}

TEST_F(ServerTest, BL_106_EverythingButThePublicRoutesNeedsTheKey) {
  options.config.api_key = {"secret"};
  start();
  for (const std::string_view path : {"/health", "/ping"}) {
    EXPECT_EQ(ask(get(path)).status, 200) << path;
  }
  for (const std::string_view path :
       {"/v1/models", "/echo", "/stream", "/metrics", "/metrics/", "/nothing", "/", "//v1/models",
        "/v1/models/", "/V1/MODELS", "/health/", "//health", "/HEALTH", "/health%00",
        "/%76%31/models", "/v1/../v1/models", "http://x/v1/models", "*"}) {
    const Answer none = ask(get(path));
    EXPECT_EQ(none.status, 401) << path;
    EXPECT_EQ(none.body, R"({"error":"Unauthorized"})") << path;
    EXPECT_EQ(none.headers.count("www-authenticate"), 0u);
    EXPECT_EQ(ask(get(path, "Authorization: Bearer wrong\r\n")).status, 401) << path;
    EXPECT_NE(ask(get(path, "Authorization: bearer secret\r\n")).status, 401) << path;
  }
  EXPECT_EQ(held_.num_calls.load(), 0);
}

TEST_F(ServerTest, AStrangersBodyIsNotRead) {
  options.config.api_key = {"secret"};
  start();
  EXPECT_EQ(ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\n\r\n").status, 401);
}

TEST_F(ServerTest, MetricsCanBeOpenedForAScraper) {
  options.config.api_key = {"secret"};
  options.config.unguarded_metrics = true;
  start();
  EXPECT_EQ(ask(get("/metrics")).status, 200);
  EXPECT_EQ(ask(get("/v1/models")).status, 401);
}

}  // namespace
}  // namespace octavo::server::test
