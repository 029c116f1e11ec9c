#include "server/transport.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace octavo::server {
namespace {

class PlainTransport final : public Transport {
 public:
  explicit PlainTransport(int fd) : fd_(fd) {}

  IoResult read(std::span<char> buffer) override {
    const ssize_t count = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (count > 0) return {IoResult::Kind::kDone, size_t(count)};
    if (count == 0) return {IoResult::Kind::kEof, 0};
    return failed(IoResult::Kind::kWantRead);
  }
  IoResult write(std::string_view bytes) override {
    const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) return {IoResult::Kind::kDone, size_t(count)};
    return failed(IoResult::Kind::kWantWrite);
  }
  void shutdown_write() override { ::shutdown(fd_, SHUT_WR); }

 private:
  static IoResult failed(IoResult::Kind would_block) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {would_block, 0};
    return {IoResult::Kind::kError, 0};
  }
  const int fd_;
};

struct SslFree {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

// The handshake happens inside the first read (SSL_set_accept_state). OpenSSL writes with plain
// write(2); the server ignores SIGPIPE.
class TlsTransport final : public Transport {
 public:
  TlsTransport(SSL_CTX* context, int fd) : ssl_(SSL_new(context)), fd_(fd) {
    if (ssl_ == nullptr) return;
    SSL_set_fd(ssl_.get(), fd);
    SSL_set_accept_state(ssl_.get());
    SSL_set_mode(ssl_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  }
  IoResult read(std::span<char> buffer) override {
    if (ssl_ == nullptr) return {IoResult::Kind::kError, 0};
    ERR_clear_error();
    const int count =
        SSL_read(ssl_.get(), buffer.data(), int(std::min<size_t>(buffer.size(), INT_MAX)));
    return outcome(count);
  }
  IoResult write(std::string_view bytes) override {
    if (ssl_ == nullptr) return {IoResult::Kind::kError, 0};
    if (bytes.empty()) return {};
    ERR_clear_error();
    const int count =
        SSL_write(ssl_.get(), bytes.data(), int(std::min<size_t>(bytes.size(), INT_MAX)));
    return outcome(count);
  }
  void shutdown_write() override {
    if (ssl_ != nullptr && !broken_) SSL_shutdown(ssl_.get());
    ::shutdown(fd_, SHUT_WR);
  }

 private:
  IoResult outcome(int count) {
    if (count > 0) return {IoResult::Kind::kDone, size_t(count)};
    switch (SSL_get_error(ssl_.get(), count)) {
      case SSL_ERROR_WANT_READ:
        return {IoResult::Kind::kWantRead, 0};
      case SSL_ERROR_WANT_WRITE:
        return {IoResult::Kind::kWantWrite, 0};
      case SSL_ERROR_ZERO_RETURN:
        return {IoResult::Kind::kEof, 0};
      default:
        broken_ = true;
        return {IoResult::Kind::kError, 0};
    }
  }
  const std::unique_ptr<SSL, SslFree> ssl_;
  const int fd_;
  bool broken_ = false;
};

class OpenSslContext final : public TlsContext {
 public:
  explicit OpenSslContext(std::unique_ptr<SSL_CTX, SslFree> context)
      : context_(std::move(context)) {}
  std::unique_ptr<Transport> accept(int fd) override {
    return std::make_unique<TlsTransport>(context_.get(), fd);
  }

 private:
  const std::unique_ptr<SSL_CTX, SslFree> context_;
};

}  // namespace

std::unique_ptr<Transport> make_plain_transport(int fd) {
  return std::make_unique<PlainTransport>(fd);
}

Result<std::unique_ptr<TlsContext>> TlsContext::create(const config::ServerConfig& config) {
  std::unique_ptr<SSL_CTX, SslFree> context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr) return Error{Code::kInternal, "OpenSSL has no TLS server method"};
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION);
  if (SSL_CTX_use_certificate_chain_file(context.get(), config.ssl_certfile.c_str()) != 1) {
    return Error{Code::kInvalidArgument, "--ssl-certfile: no PEM certificate can be read from '" +
                                             config.ssl_certfile + "'"};
  }
  const std::string& key = config.ssl_keyfile.empty() ? config.ssl_certfile : config.ssl_keyfile;
  if (SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1) {
    return Error{Code::kInvalidArgument,
                 "--ssl-keyfile: no PEM key of the certificate can be read from '" + key + "'"};
  }
  return std::unique_ptr<TlsContext>(std::make_unique<OpenSslContext>(std::move(context)));
}

Result<std::unique_ptr<TlsContext>> tls_context(const config::ServerConfig& config) {
  if (config.ssl_certfile.empty() && config.ssl_keyfile.empty()) {
    return std::unique_ptr<TlsContext>();
  }
  if (config.ssl_certfile.empty()) {
    return Error{Code::kInvalidArgument, "--ssl-keyfile needs --ssl-certfile"};
  }
  return TlsContext::create(config);
}

}  // namespace octavo::server
