#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "base/check.h"

namespace octavo::client {

/// A loopback server for tests: accepts one connection after another and hands each to `handle`
/// (its number from 0), which owns nothing: the descriptor is closed afterwards.
class TestServer {
 public:
  using Handle = std::function<void(int fd, int number)>;
  explicit TestServer(Handle handle);
  ~TestServer();
  uint16_t port() const { return port_; }

 private:
  int listener_ = -1;
  uint16_t port_ = 0;
  std::thread thread_;
};

inline TestServer::TestServer(Handle handle) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  CHECK(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
  CHECK(::listen(listener_, 64) == 0);
  CHECK(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this, handle = std::move(handle)] {
    for (int number = 0;; ++number) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      handle(fd, number);
      ::close(fd);
    }
  });
}

inline TestServer::~TestServer() {
  ::shutdown(listener_, SHUT_RDWR);  // wakes accept
  thread_.join();
  ::close(listener_);
}

/// Reads one request (head and the body that Content-Length announces); empty at the end.
inline std::string read_request(int fd) {
  std::string text;
  char buffer[4096];
  size_t wanted = std::string::npos;
  while (text.size() < wanted) {
    const ssize_t count = ::recv(fd, buffer, sizeof(buffer), 0);
    if (count <= 0) return {};
    text.append(buffer, size_t(count));
    const size_t head = text.find("\r\n\r\n");
    if (head == std::string::npos) continue;
    const size_t length = text.find("Content-Length: ");
    wanted = head + 4;
    if (length < head) wanted += size_t(std::strtoul(text.c_str() + length + 16, nullptr, 10));
  }
  return text;
}

inline void send_text(int fd, const std::string& text) {
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t count = ::send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return;
    sent += size_t(count);
  }
}

}  // namespace octavo::client
