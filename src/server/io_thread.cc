#include "server/io_thread.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <ctime>
#include <exception>

#include "base/log.h"
#include "base/thread_name.h"

namespace octavo::server {
namespace {

constexpr size_t kScratchBytes = 64 << 10;
constexpr int kMaxAcceptsInARow = 256;
constexpr long kWarningIntervalS = 10;

std::string client_name(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return fmt::format("{}:{}", text, ntohs(v4.sin_port));
  }
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    return fmt::format("[{}]:{}", text, ntohs(v6.sin6_port));
  }
  return "unix";
}

// What a handler of one connection throws (no memory, no descriptor for epoll) must not end the
// program: the others go on.
void run_loop(boost::asio::io_context& context) {
  for (;;) {
    try {
      context.run();
      return;
    } catch (const std::exception&) {
      log::error(log::Source::kApiServer, "An I/O thread went on after an unexpected failure");
    }
  }
}

}  // namespace

IoThread::IoThread(ServerState& state)
    : state_(state),
      context_(std::make_shared<boost::asio::io_context>()),
      scratch_(kScratchBytes),
      accept_pause_(*context_) {}

IoThread::~IoThread() { stop(); }

void IoThread::start() {
  thread_ = std::thread([context = context_] {
    name_this_thread("http");
    const auto guard = boost::asio::make_work_guard(*context);
    run_loop(*context);
  });
}

void IoThread::accept_from(int listen_fd, std::function<void(int, std::string)> assign) {
  assign_ = std::move(assign);
  acceptor_.emplace(*context_, listen_fd);
  wait_acceptable();
}

void IoThread::wait_acceptable() {
  acceptor_->async_wait(boost::asio::posix::descriptor_base::wait_read,
                        [this](const boost::system::error_code& error) {
                          if (!error) accept_all();
                        });
}

void IoThread::accept_all() {
  if (winding_down_) return;
  for (int i = 0; i < kMaxAcceptsInARow; ++i) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    const int fd = ::accept4(acceptor_->native_handle(), reinterpret_cast<sockaddr*>(&address),
                             &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // a Unix socket says no; fine
      assign_(fd, client_name(address));
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      return pause_accepting();
    }
    // ECONNABORTED and the like concern that one client.
  }
  wait_acceptable();
}

// Out of descriptors: make room, and look again shortly instead of spinning on the same error.
void IoThread::pause_accepting() {
  const std::time_t now = std::time(nullptr);
  if (now >= last_warning_s_ + kWarningIntervalS) {
    last_warning_s_ = now;
    log::warning(log::Source::kApiServer, "No file descriptor is left for new connections");
  }
  for (int i = 0; i < 64 && evict_one(); ++i) {
  }
  accept_pause_.expires_after(std::chrono::milliseconds(100));
  accept_pause_.async_wait([this](const boost::system::error_code& error) {
    if (!error) accept_all();
  });
}

void IoThread::adopt(int fd, std::string client) {
  boost::asio::post(*context_, [this, fd, client = std::move(client)]() mutable {
    take_socket(fd, std::move(client));
  });
}

void IoThread::take_socket(int fd, std::string client) {
  if (winding_down_) {
    ::close(fd);
    return;
  }
  const bool full = state_.num_connections.load() >= state_.max_connections;
  const bool has_room = !full || evict_one();
  std::shared_ptr<Connection> connection;
  try {
    connection = std::make_shared<Connection>(*this, state_, fd, std::move(client));
    connections_.emplace(connection.get(), connection);
  } catch (const std::exception&) {  // no memory, or epoll refuses the socket
    if (!connection) ::close(fd);
    return;
  }
  if (!has_room) return connection->refuse();
  connection->start();
}

// Closes a connection that waits between requests, so that idle clients cannot keep others out.
// Only of this thread: sockets are dealt out in turn, so that each thread has its share of them.
bool IoThread::evict_one() {
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [](const auto& entry) { return entry.second->idle(); });
  if (found == connections_.end()) return false;
  const auto connection = found->second;  // close() erases the entry
  connection->close();
  return true;
}

void IoThread::wind_down() {
  boost::asio::post(*context_, [this] {
    winding_down_ = true;
    boost::system::error_code ignored;
    if (acceptor_) acceptor_->close(ignored);
    accept_pause_.cancel();
    std::vector<std::shared_ptr<Connection>> all;
    for (const auto& [key, connection] : connections_) all.push_back(connection);
    for (const auto& connection : all) connection->close_when_idle();
  });
}

void IoThread::stop() {
  if (!thread_.joinable()) return;
  boost::asio::post(*context_, [this] {
    std::vector<std::shared_ptr<Connection>> all;
    for (const auto& [key, connection] : connections_) all.push_back(connection);
    for (const auto& connection : all) connection->close();
    context_->stop();
  });
  thread_.join();
}

std::string_view IoThread::date() {
  const long now = std::time(nullptr);
  if (now != date_second_) {
    date_second_ = now;
    date_ = http_date(now);
  }
  return date_;
}

void IoThread::closed(Connection& connection) { connections_.erase(&connection); }

}  // namespace octavo::server
