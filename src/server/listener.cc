#include "server/listener.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "server/transport.h"

namespace octavo::server {
namespace {

constexpr int kBacklog = 4096;  // the kernel lowers it to net.core.somaxconn

bool is_loopback_address(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

int bound_port(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return 0;
  if (storage.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
  }
  return ntohs(reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port);
}

// A socket file whose server has died may be replaced; a living one, or another kind of file, not.
bool is_stale_socket(const sockaddr_un& address) {
  struct stat info {};
  if (lstat(address.sun_path, &info) != 0 || !S_ISSOCK(info.st_mode)) return false;
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return false;
  const int rc = ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const bool refused = rc != 0 && errno == ECONNREFUSED;
  ::close(probe);
  return refused;
}

}  // namespace

Listener::Listener(Listener&& other) noexcept { *this = std::move(other); }

Listener& Listener::operator=(Listener&& other) noexcept {
  if (this == &other) return *this;
  close();
  fd_ = std::exchange(other.fd_, -1);
  port_ = other.port_;
  loopback_ = other.loopback_;
  address_ = std::move(other.address_);
  unix_path_ = std::exchange(other.unix_path_, {});
  return *this;
}

Listener::~Listener() { close(); }

void Listener::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  if (!unix_path_.empty()) ::unlink(unix_path_.c_str());
  unix_path_.clear();
}

int Listener::release() { return std::exchange(fd_, -1); }

Status Listener::listen() {
  if (::listen(fd_, kBacklog) == 0) return {};
  return Error{Code::kInternal, fmt::format("cannot listen on {}: {}", address_, strerror(errno))};
}

Result<Listener> Listener::bind(const config::ServerConfig& config) {
  OCTAVO_TRY(const auto tls, tls_context(config));  // a wrong file is known before the model loads
  return config.uds.empty() ? bind_tcp(config) : bind_unix(config.uds);
}

Result<Listener> Listener::bind_unix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Error{Code::kInvalidArgument,
                 fmt::format("--uds: the path has {} bytes, a Unix socket allows {}", path.size(),
                             sizeof address.sun_path - 1)};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  Listener listener;
  listener.fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener.fd_ < 0) return Error{Code::kInternal, fmt::format("socket: {}", strerror(errno))};
  if (is_stale_socket(address)) ::unlink(path.c_str());
  if (::bind(listener.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Error{Code::kInvalidArgument,
                 fmt::format("--uds: cannot bind '{}': {}", path, strerror(errno))};
  }
  listener.unix_path_ = path;
  listener.address_ = "unix:" + path;
  return listener;
}

Result<Listener> Listener::bind_tcp(const config::ServerConfig& config) {
  if (config.port < 0 || config.port > 65535) {
    return Error{Code::kInvalidArgument,
                 fmt::format("--port must be between 0 and 65535, got {}", config.port)};
  }
  const std::string host = config.host.empty() ? "0.0.0.0" : config.host;
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int rc = getaddrinfo(host.c_str(), std::to_string(config.port).c_str(), &hints, &found);
  if (rc != 0) {
    return Error{Code::kInvalidArgument,
                 fmt::format("--host: cannot resolve '{}': {}", host, gai_strerror(rc))};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  std::string reason = "no address";
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    Listener listener;
    listener.fd_ = ::socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener.fd_ < 0) {
      reason = strerror(errno);
      continue;
    }
    const int on = 1;
    setsockopt(listener.fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(listener.fd_, info->ai_addr, info->ai_addrlen) != 0) {
      reason = errno == EADDRINUSE ? "the port is already in use; --port takes another one"
                                   : strerror(errno);
      continue;
    }
    listener.port_ = bound_port(listener.fd_);
    listener.loopback_ = is_loopback_address(info->ai_addr);
    const bool v6 = host.find(':') != std::string::npos;
    listener.address_ =
        fmt::format("{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", listener.port_);
    return listener;
  }
  return Error{Code::kInvalidArgument,
               fmt::format("cannot bind {}:{}: {}", host, config.port, reason)};
}

}  // namespace octavo::server
