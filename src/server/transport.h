#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "config/config.h"

namespace octavo::server {

/// Outcome of one non-blocking read or write.
struct IoResult {
  enum class Kind { kDone, kWantRead, kWantWrite, kEof, kError };
  Kind kind = Kind::kDone;
  size_t count = 0;  // with kDone
};

/// Bytes to and from one connected, non-blocking socket. Does not own the descriptor.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual IoResult read(std::span<char> buffer) = 0;
  virtual IoResult write(std::string_view bytes) = 0;
  /// Says goodbye in the protocol's own way (TLS close_notify); best effort.
  virtual void shutdown_write() = 0;
};

std::unique_ptr<Transport> make_plain_transport(int fd);

/// Certificate and key of the server, loaded once; makes one TLS transport per connection.
class TlsContext {
 public:
  /// Reads PEM files. Errors name the file.
  static Result<std::unique_ptr<TlsContext>> create(const config::ServerConfig& config);
  virtual ~TlsContext() = default;
  virtual std::unique_ptr<Transport> accept(int fd) = 0;
};

/// As the flags say: nothing without TLS files. Errors: one is missing or cannot be used.
Result<std::unique_ptr<TlsContext>> tls_context(const config::ServerConfig& config);

}  // namespace octavo::server
