#include "bench/child_process.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/managed_server.h"

namespace octavo::bench {
namespace {

using namespace std::chrono_literals;
using Clock = ChildProcess::Clock;

std::string temporary(const std::string& name) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("octavo_" + name + "_" + std::to_string(::getpid()));
  std::filesystem::remove(path);
  return path.string();
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return (std::ostringstream() << file.rdbuf()).str();
}

TEST(ChildProcess, TellsHowItEnded) {
  const auto status_of = [](const std::string& script) {
    auto child = ChildProcess::start({"sh", "-c", script}, {});
    EXPECT_TRUE(child.ok());
    return child->wait_until(Clock::now() + 10s);
  };
  EXPECT_EQ(status_of("exit 0"), 0);
  EXPECT_EQ(status_of("exit 7"), 7);
  EXPECT_EQ(status_of("kill -9 $$"), 128 + 9);
  EXPECT_EQ(status_of("read line"), 1);  // there is no input
}

TEST(ChildProcess, WritesToItsFileAndSeesItsVariables) {
  ChildOptions options{temporary("child"), {{"OCTAVO_TEST_WORD", "here"}}};
  auto child = ChildProcess::start({"sh", "-c", "echo $OCTAVO_TEST_WORD; echo err >&2"}, options);
  ASSERT_TRUE(child.ok());
  child->wait_until(Clock::now() + 10s);
  EXPECT_EQ(text_of(options.output_path), "here\nerr\n");
  EXPECT_EQ(last_lines(options.output_path, 1), "err");
  EXPECT_EQ(last_lines(options.output_path, 9), "here\nerr");
  std::filesystem::remove(options.output_path);
  EXPECT_EQ(last_lines(options.output_path, 1), "");
}

TEST(ChildProcess, WhatCannotBeStartedIsAnError) {
  const auto child = ChildProcess::start({"/nonexistent/program"}, {});
  ASSERT_FALSE(child.ok());
  EXPECT_NE(child.error().message.find("No such file"), std::string::npos);
  EXPECT_FALSE(ChildProcess::start({}, {}).ok());
  EXPECT_FALSE(ChildProcess::start({"true"}, {"/nonexistent/file", {}}).ok());
}

TEST(ChildProcess, StopEndsTheWholeGroupAlsoWhatIgnoresSigterm) {
  const std::string path = temporary("group");
  auto child = ChildProcess::start(
      {"sh", "-c", "trap '' TERM; (trap '' TERM; sleep 60 & echo $! >" + path + "; wait) & wait"},
      {});
  ASSERT_TRUE(child.ok());
  while (text_of(path).find('\n') == std::string::npos) pause_for(5ms);
  const pid_t grandchild = pid_t(std::stol(text_of(path)));
  EXPECT_EQ(::kill(grandchild, 0), 0);
  EXPECT_FALSE(child->wait_until(Clock::now() + 20ms));
  child->stop(100ms);
  // init may not have reaped it yet, but it does not run.
  std::string state = text_of("/proc/" + std::to_string(grandchild) + "/stat");
  EXPECT_TRUE(state.empty() || state.find(") Z ") != std::string::npos) << state;
  std::filesystem::remove(path);
}

TEST(ChildProcess, ASignalEndsTheWaitingNotTheProcess) {
  const StopSignals signals;
  auto child = ChildProcess::start({"sleep", "60"}, {});
  ASSERT_TRUE(child.ok());
  ::raise(SIGTERM);
  EXPECT_FALSE(child->wait_until(Clock::now() + 60s));
  EXPECT_EQ(StopSignals::caught(), SIGTERM);
  EXPECT_FALSE(StopSignals::is_urgent());
}

TEST(ManagedServer, WhoHoldsThePortIsLeftAlone) {
  const int other = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(other, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(other, 8), 0);
  ASSERT_EQ(::getsockname(other, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string path = temporary("started");
  ServerCommand command;
  command.words = {"touch", path, "--port", std::to_string(ntohs(address.sin_port))};
  const auto refused = ManagedServer::start(command);
  ::close(other);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("it is left alone"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path));  // the command was not even started
}

TEST(ManagedServer, WaitsNoLongerThanItIsTold) {
  const int port = find_free_port().value();
  EXPECT_FALSE(is_listening("127.0.0.1", port));
  ServerCommand command;
  command.words = {"sh", "-c", "sleep 60", "--port", std::to_string(port)};
  command.ready_timeout = std::chrono::seconds(0);
  const auto late = ManagedServer::start(command);
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.error().message.find("not ready within 0 s"), std::string::npos)
      << late.error().message;
  for (const char* bad : {"0", "65536", "x", "8000x"}) {
    command.words.back() = bad;
    EXPECT_EQ(ManagedServer::start(command).error().code, Code::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace octavo::bench
