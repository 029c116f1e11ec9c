#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cstdio>

#include "server/test_support.h"

namespace octavo::server::test {
namespace {

/// A self-signed certificate with its key, as two PEM files.
void write_certificate(const std::string& cert_path, const std::string& key_path) {
  EVP_PKEY* key = EVP_RSA_gen(2048);
  X509* cert = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert), 0);
  X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
  X509_set_pubkey(cert, key);
  X509_NAME* name = X509_get_subject_name(cert);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(cert, name);
  X509_sign(cert, key, EVP_sha256());
  FILE* file = std::fopen(cert_path.c_str(), "w");
  PEM_write_X509(file, cert);
  std::fclose(file);
  file = std::fopen(key_path.c_str(), "w");
  PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  X509_free(cert);
  EVP_PKEY_free(key);
}

/// Sends one request over TLS and reads up to the end of the connection.
std::string ask_tls(int port, const std::string& request) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  BIO* bio = BIO_new_ssl_connect(context);
  BIO_set_conn_hostname(bio, ("127.0.0.1:" + std::to_string(port)).c_str());
  std::string out;
  if (BIO_do_connect(bio) == 1) {
    BIO_write(bio, request.data(), int(request.size()));
    char bytes[4096];
    int n = 0;
    while ((n = BIO_read(bio, bytes, sizeof bytes)) > 0) out.append(bytes, size_t(n));
  }
  BIO_free_all(bio);
  SSL_CTX_free(context);
  return out;
}

class TlsTest : public ServerTest {
 protected:
  TlsTest() {
    const std::string stem = ::testing::TempDir() + "octavo_tls_" + std::to_string(getpid());
    options.config.ssl_certfile = stem + ".crt";
    options.config.ssl_keyfile = stem + ".key";
    write_certificate(options.config.ssl_certfile, options.config.ssl_keyfile);
  }
  ~TlsTest() override {
    ::unlink(options.config.ssl_certfile.c_str());
    ::unlink(options.config.ssl_keyfile.c_str());
  }
};

TEST_F(TlsTest, AnswersAndStreams) {
  start();
  const std::string answer = ask_tls(port, get("/health", "Connection: close\r\n"));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
  const std::string body(300'000, 'x');
  const std::string echoed = ask_tls(port, post("/echo", body, "Connection: close\r\n"));
  EXPECT_TRUE(echoed.ends_with("\r\n\r\n" + body));
  const std::string events = ask_tls(port, get("/stream", "Connection: close\r\n"));
  EXPECT_NE(events.find("data: [DONE]"), std::string::npos);
}

TEST_F(TlsTest, PlainHttpOnATlsPortIsClosed) {
  start();
  RawClient client(port);
  client.send(get("/health"));
  EXPECT_TRUE(client.ends());
  EXPECT_TRUE(ask_tls(port, get("/health", "Connection: close\r\n")).starts_with("HTTP/1.1 200"));
}

TEST_F(TlsTest, AFileThatCannotBeReadIsAnErrorThatNamesIt) {
  options.config.ssl_keyfile = "/no/such/key.pem";
  const auto listener = Listener::bind(options.config);
  ASSERT_FALSE(listener.ok());
  EXPECT_NE(listener.error().message.find("/no/such/key.pem"), std::string::npos);
}

}  // namespace
}  // namespace octavo::server::test
