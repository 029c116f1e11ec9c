#include "cli/app.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <vector>

#include "config/version.h"

namespace octavo::cli {
namespace {

using testing::HasSubstr;

/// What one run printed and returned.
struct Outcome {
  int status = 0;
  std::string out;
  std::string err;
  std::optional<config::Config> served;
};

Outcome run_with(std::vector<std::string> args) {
  Outcome outcome;
  char* text[2] = {nullptr, nullptr};
  size_t size[2] = {0, 0};
  std::FILE* out = open_memstream(&text[0], &size[0]);
  std::FILE* err = open_memstream(&text[1], &size[1]);
  Host host;
  host.environment = [](std::string_view) { return std::nullopt; };
  host.serve = [&](const config::Config& config) {
    outcome.served = config;
    return 7;
  };
  host.out = out;
  host.err = err;
  outcome.status = run(args, host);
  std::fclose(out);
  std::fclose(err);
  outcome.out.assign(text[0], size[0]);
  outcome.err.assign(text[1], size[1]);
  std::free(text[0]);
  std::free(text[1]);
  return outcome;
}

TEST(App, VersionIsTheBareText) {
  for (const char* flag : {"-v", "--version"}) {
    const Outcome outcome = run_with({flag});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.out, std::string(config::version()) + "\n");
  }
}

TEST(App, WithoutSubcommandHelpIsPrinted) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{}, {"--help"}, {"-h"}}) {
    const Outcome outcome = run_with(args);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.out, HasSubstr("usage: octavo"));
    EXPECT_THAT(outcome.out, HasSubstr("serve"));
  }
}

TEST(App, ServeGetsItsConfigAndItsStatusIsReturned) {
  const Outcome outcome = run_with({"serve", "m", "--port", "1"});
  EXPECT_EQ(outcome.status, 7);
  ASSERT_TRUE(outcome.served);
  EXPECT_EQ(outcome.served->engine.model.model, "m");
  EXPECT_EQ(outcome.served->server.port, 1);
}

TEST(App, BadFlagExitsWithTwoAndUsageOnStderr) {
  const Outcome outcome = run_with({"serve", "--prot", "1"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, testing::StartsWith("usage: octavo serve"));
  EXPECT_THAT(outcome.err,
              HasSubstr("error: unrecognized arguments: --prot (did you mean --port?)"));
  EXPECT_FALSE(outcome.served);
}

TEST(App, ServeHelpIsPrintedWithoutServing) {
  const Outcome outcome = run_with({"serve", "--help"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("Config Groups:"));
  EXPECT_FALSE(outcome.served);
}

TEST(App, LaterSubcommandsSaySoInOneLine) {
  for (const char* name : {"run-batch", "launch", "preload", "snapshot"}) {
    const Outcome outcome = run_with({name, "--help"});
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, HasSubstr("belongs to a later version"));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
  }
}

TEST(App, UnknownSubcommandExitsWithTwo) {
  const Outcome outcome = run_with({"sevre"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("invalid choice: 'sevre'"));
}

}  // namespace
}  // namespace octavo::cli
