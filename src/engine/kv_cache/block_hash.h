#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/message.h"
#include "engine/request.h"

namespace octavo::engine {

/// What a block hash is made of: a serialisation and a digest.
enum class HashAlgorithm : uint8_t { kSha256, kSha256Cbor, kXxhash, kXxhashCbor };

/// `--prefix-caching-hash-algo`; kInvalidArgument names the allowed values.
Result<HashAlgorithm> parse_hash_algorithm(std::string_view name);

/// Hash of block i = H((parent, tokens, extra)): parent is the hash of block i - 1, or NONE_HASH
/// for the first; extra carries the salt, in the first block only. Digests are byte for byte those
/// of vLLM, so that routers and persisted caches agree. Immutable
/// after creation; safe from any thread.
class BlockHasher {
 public:
  /// `seed` is the value of PYTHONHASHSEED if set. Without it the sha256 pair uses a constant, the
  /// xxhash pair 32 random bytes.
  BlockHasher(HashAlgorithm algorithm, const std::optional<std::string>& seed);

  const BlockHash& none_hash() const { return none_hash_; }
  HashAlgorithm algorithm() const { return algorithm_; }

  /// Hash of one full block. `parent` null means the first block. `extra` keys in the contract's
  /// order; empty = none.
  BlockHash hash_block(const BlockHash* parent, std::span<const TokenId> tokens,
                       std::span<const std::string_view> extra) const;

  /// Appends to `hashes` the hashes of the full blocks of `tokens` that it does not hold yet.
  void extend(std::vector<BlockHash>& hashes, std::span<const TokenId> tokens, int64_t block_size,
              std::string_view cache_salt) const;

 private:
  BlockHash digest(std::string_view bytes) const;
  size_t digest_size() const;

  HashAlgorithm algorithm_;
  BlockHash none_hash_{};
};

/// The low 64 bits of a hash, read big-endian: how KV events name a block.
int64_t block_hash_as_int(const BlockHash& hash, HashAlgorithm algorithm);

/// The serialisations, exposed for their tests.
std::string pickle_string(std::string_view text);
std::string pickle_block(std::string_view parent, std::span<const TokenId> tokens,
                         std::span<const std::string_view> extra);
std::string cbor_string(std::string_view text);
std::string cbor_block(std::string_view parent, std::span<const TokenId> tokens,
                       std::span<const std::string_view> extra);

}  // namespace octavo::engine
