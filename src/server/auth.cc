#include "server/auth.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "server/http_parser.h"

namespace octavo::server {
namespace {
std::array<uint8_t, 32> digest_of(std::string_view key) {
  std::array<uint8_t, 32> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}
}  // namespace

Authenticator::Authenticator(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (!key.empty()) digests_.push_back(digest_of(key));
  }
}

bool Authenticator::allows(std::string_view authorization) const {
  if (digests_.empty()) return true;
  const size_t space = authorization.find(' ');
  if (space == std::string_view::npos) return false;
  const bool bearer = equals_ignoring_case(authorization.substr(0, space), "bearer");
  const Digest given = digest_of(authorization.substr(space + 1));
  bool any = false;
  for (const Digest& digest : digests_) {
    any |= CRYPTO_memcmp(digest.data(), given.data(), digest.size()) == 0;
  }
  return bearer && any;
}

}  // namespace octavo::server
