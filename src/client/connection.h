#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::client {

/// One connected socket, plain or TLS, with the buffer that its reads use.
class Connection {
 public:
  using ErrorCode = boost::system::error_code;
  Connection(boost::asio::io_context& context, boost::asio::ssl::context* tls)
      : socket_(context), buffer_(16 << 10) {
    if (tls != nullptr) tls_.emplace(socket_, *tls);
  }

  boost::asio::ip::tcp::socket& socket() { return socket_; }
  bool is_tls() const { return tls_.has_value(); }
  boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>& tls() { return *tls_; }

  void async_read(std::function<void(ErrorCode, size_t)> done);
  /// `bytes` must stay until `done`.
  void async_write(std::string_view bytes, std::function<void(ErrorCode)> done);
  std::string_view received(size_t count) const { return {buffer_.data(), count}; }
  /// Whether the peer has closed or sent something unasked since the last answer.
  bool is_stale();
  void close();

 private:
  boost::asio::ip::tcp::socket socket_;
  std::optional<boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>> tls_;
  std::vector<char> buffer_;
};

}  // namespace octavo::client
