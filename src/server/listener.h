#pragma once

#include <string>

#include "base/result.h"
#include "config/config.h"

namespace octavo::server {

/// A bound socket that does not listen yet: bound before the model loads, so that a port in use is
/// an error in the first millisecond, while early clients are refused rather than kept waiting.
class Listener {
 public:
  /// Binds --uds, or --host and --port (0 takes a free port). Errors name address and flag;
  /// TLS files are checked too.
  static Result<Listener> bind(const config::ServerConfig& config);
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&& other) noexcept;
  ~Listener();

  /// Begins to accept connections into the kernel's backlog.
  Status listen();
  /// Gives the descriptor away; the Unix socket's file stays this object's to remove.
  int release();

  /// The real port, 0 for a Unix socket.
  int port() const { return port_; }
  /// `127.0.0.1:8000` or `unix:<path>`, as the start line shows it.
  const std::string& address() const { return address_; }
  bool is_loopback() const { return loopback_; }

 private:
  Listener() = default;
  void close();
  static Result<Listener> bind_unix(const std::string& path);
  static Result<Listener> bind_tcp(const config::ServerConfig& config);

  int fd_ = -1;
  int port_ = 0;
  bool loopback_ = true;
  std::string address_;
  std::string unix_path_;
};

}  // namespace octavo::server
