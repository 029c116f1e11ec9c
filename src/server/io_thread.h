#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "server/connection.h"

namespace octavo::server {

/// One event loop and the connections that live on it. Methods are for its own thread unless they
/// say otherwise.
class IoThread final : public ConnectionOwner {
 public:
  explicit IoThread(ServerState& state);
  ~IoThread() override;

  /// Starts the loop. Owner's thread.
  void start();
  /// Accepts from `listen_fd` (which it owns from now on) and hands each socket to `assign`. Before
  /// `start`.
  void accept_from(int listen_fd, std::function<void(int fd, std::string client)> assign);
  /// Takes a connected socket. Any thread.
  void adopt(int fd, std::string client);
  /// No more accepting; connections close once nothing is owed to them. Any thread.
  void wind_down();
  /// Cuts what is left and joins. Owner's thread.
  void stop();

  boost::asio::io_context& context() override { return *context_; }
  std::shared_ptr<boost::asio::io_context> shared_context() override { return context_; }
  std::span<char> scratch() override { return scratch_; }
  std::string_view date() override;
  void closed(Connection& connection) override;

 private:
  void wait_acceptable();
  void accept_all();
  void pause_accepting();
  void take_socket(int fd, std::string client);
  bool evict_one();

  ServerState& state_;
  const std::shared_ptr<boost::asio::io_context> context_;
  std::vector<char> scratch_;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;
  std::optional<boost::asio::posix::stream_descriptor> acceptor_;
  boost::asio::steady_timer accept_pause_;
  std::function<void(int, std::string)> assign_;
  bool winding_down_ = false;
  long last_warning_s_ = 0;
  long date_second_ = 0;
  std::string date_;
  std::thread thread_;
};

}  // namespace octavo::server
