#include "bench/managed_server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "bench/command_flags.h"
#include "client/wait.h"

namespace octavo::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kGrace = std::chrono::seconds(10);  // from SIGTERM to SIGKILL
constexpr size_t kLogLines = 12;

struct Address {
  std::string host = "127.0.0.1";
  int port = 8000;
};

Result<Address> address_of(const std::vector<std::string>& words) {
  Address address;
  const std::string host = find_flag(words, "host");
  const std::string port = find_flag(words, "port");
  // What is bound to all interfaces is asked on the loopback one.
  if (!host.empty() && host != "0.0.0.0") address.host = host == "::" ? "::1" : host;
  if (port.empty()) return address;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size() || address.port < 1 ||
      address.port > 65535) {
    return Error{Code::kInvalidArgument,
                 fmt::format("the server command's --port {} is not 1 to 65535", port)};
  }
  return address;
}

client::ClientOptions short_timeout() {
  client::ClientOptions options;
  options.connect_timeout_s = 2;
  options.total_timeout_s = 5;
  return options;
}

}  // namespace

Result<int> find_free_port() {
  const int file = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (file < 0) return Error{Code::kUnavailable, "no socket"};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool is_bound =
      ::bind(file, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::getsockname(file, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(file);
  if (!is_bound) return Error{Code::kUnavailable, "no free port on 127.0.0.1"};
  return int(ntohs(address.sin_port));
}

bool is_listening(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return false;
  bool accepts = false;
  for (const addrinfo* entry = found; entry != nullptr && !accepts; entry = entry->ai_next) {
    const int file =
        ::socket(entry->ai_family, entry->ai_socktype | SOCK_CLOEXEC, entry->ai_protocol);
    if (file < 0) continue;
    const timeval timeout{2, 0};  // also of connect
    ::setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    accepts = ::connect(file, entry->ai_addr, entry->ai_addrlen) == 0;
    ::close(file);
  }
  ::freeaddrinfo(found);
  return accepts;
}

Result<std::unique_ptr<ManagedServer>> ManagedServer::start(const ServerCommand& command) {
  OCTAVO_TRY(const Address address, address_of(command.words));
  OCTAVO_TRY(client::Origin origin, client::make_origin(address.host, address.port));
  if (is_listening(address.host, address.port)) {
    return Error{Code::kUnavailable,
                 fmt::format("somebody else's server listens on {} already; it is left alone. Give "
                             "the server command another --port",
                             origin.host_header())};
  }
  ChildOptions options;
  options.output_path = command.log_path;
  options.environment = {{"VLLM_SERVER_DEV_MODE", "1"}};  // the routes that reset caches
  OCTAVO_TRY(ChildProcess child, ChildProcess::start(command.words, options));
  Server server;
  server.base.origin = std::move(origin);
  std::unique_ptr<ManagedServer> started(
      new ManagedServer(std::move(child), std::move(server), command.log_path));
  if (Status status = started->wait_until_ready(command.ready_timeout); !status.ok()) {
    started->stop();
    return status.error();
  }
  return started;
}

bool ManagedServer::answers_health() const {
  client::Request request{"GET", "/health", {}, ""};
  const auto answer = client::fetch(server_.base.origin, std::move(request), short_timeout(), 4096);
  return answer.ok() && answer->head.status == 200;
}

Status ManagedServer::wait_until_ready(std::chrono::seconds timeout) {
  constexpr auto kPause = std::chrono::milliseconds(50);
  const auto deadline = Clock::now() + timeout;
  while (true) {
    if (child_.exit_status()) {
      return Error{Code::kUnavailable, "the server was never ready: " + describe_end()};
    }
    if (StopSignals::caught() != 0) return Error{Code::kCancelled, "stopped by a signal"};
    if (answers_health()) break;
    if (Clock::now() >= deadline) {
      return Error{Code::kUnavailable,
                   fmt::format("the server was not ready within {} s{}", timeout.count(),
                               log_path_.empty() ? "" : "; its log: " + log_path_)};
    }
    pause_for(kPause);
  }
  // Whoever answered might have taken the port in between: then ours cannot be alive for long.
  pause_for(kPause);
  if (child_.exit_status()) {
    return Error{Code::kUnavailable, "another server answers, ours ended: " + describe_end()};
  }
  return {};
}

std::string ManagedServer::url() const { return "http://" + server_.base.origin.host_header(); }

std::string ManagedServer::describe_end() {
  const auto status = child_.exit_status();
  std::string out = status ? fmt::format("it ended with status {}", *status) : "it still runs";
  const std::string lines = log_path_.empty() ? "" : last_lines(log_path_, kLogLines);
  if (!lines.empty()) out += fmt::format("; the end of {}:\n{}", log_path_, lines);
  return out;
}

bool ManagedServer::reset_caches() const {
  bool was_reset = false;
  for (const char* path : {"/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache"}) {
    client::Request request{"POST", path, {}, ""};
    client::ClientOptions options = short_timeout();
    options.total_timeout_s = 60;
    const auto answer = client::fetch(server_.base.origin, std::move(request), options, 4096);
    was_reset |= answer.ok() && answer->head.status == 200;
  }
  return was_reset;
}

void ManagedServer::stop() { child_.stop(kGrace); }

}  // namespace octavo::bench
