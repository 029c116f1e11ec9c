#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::server {

/// Checks `Authorization: Bearer <key>` against the configured keys. Only digests are kept. Const
/// and safe from any thread.
class Authenticator {
 public:
  /// Without keys everybody is let in. Empty keys are ignored: they would let in an empty bearer.
  explicit Authenticator(const std::vector<std::string>& keys);
  bool enabled() const { return !digests_.empty(); }
  /// True when no key is configured or the header carries one of them. Takes the same time
  /// whichever key matches: SHA-256 digests are compared in constant time, and always all of them.
  bool allows(std::string_view authorization) const;

 private:
  using Digest = std::array<uint8_t, 32>;
  std::vector<Digest> digests_;
};

}  // namespace octavo::server
