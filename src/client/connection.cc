#include "client/connection.h"

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>

namespace octavo::client {

void Connection::async_read(std::function<void(ErrorCode, size_t)> done) {
  if (tls_) {
    tls_->async_read_some(boost::asio::buffer(buffer_), std::move(done));
  } else {
    socket_.async_read_some(boost::asio::buffer(buffer_), std::move(done));
  }
}

void Connection::async_write(std::string_view bytes, std::function<void(ErrorCode)> done) {
  auto finish = [done = std::move(done)](ErrorCode error, size_t) { done(error); };
  const auto buffer = boost::asio::buffer(bytes.data(), bytes.size());
  if (tls_) {
    boost::asio::async_write(*tls_, buffer, std::move(finish));
  } else {
    boost::asio::async_write(socket_, buffer, std::move(finish));
  }
}

bool Connection::is_stale() {
  char byte;
  const ssize_t count =
      ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT | MSG_NOSIGNAL);
  // A TLS peer may still send session tickets after its answer; only an end or an error is stale.
  if (count > 0) return !tls_;
  return count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

void Connection::close() {
  ErrorCode ignored;
  socket_.close(ignored);
}

}  // namespace octavo::client
