#include "engine/kv_cache/block_hash.h"

#include <fmt/format.h>
#include <openssl/sha.h>
#include <xxhash.h>

#include <algorithm>
#include <random>

#include "base/check.h"

namespace octavo::engine {
namespace {

// vLLM's constant for the sha256 pair, so that hashes agree across processes and restarts.
constexpr std::string_view kConstantSeed = "vllm-none-hash";

bool uses_cbor(HashAlgorithm algorithm) {
  return algorithm == HashAlgorithm::kSha256Cbor || algorithm == HashAlgorithm::kXxhashCbor;
}

bool uses_sha256(HashAlgorithm algorithm) {
  return algorithm == HashAlgorithm::kSha256 || algorithm == HashAlgorithm::kSha256Cbor;
}

std::string random_hex_seed() {
  std::random_device device;
  std::string hex;
  for (int i = 0; i < 8; ++i) hex += fmt::format("{:08x}", device());
  return hex;
}

}  // namespace

Result<HashAlgorithm> parse_hash_algorithm(std::string_view name) {
  if (name == "sha256") return HashAlgorithm::kSha256;
  if (name == "sha256_cbor") return HashAlgorithm::kSha256Cbor;
  if (name == "xxhash") return HashAlgorithm::kXxhash;
  if (name == "xxhash_cbor") return HashAlgorithm::kXxhashCbor;
  return Error{Code::kInvalidArgument,
               fmt::format("--prefix-caching-hash-algo is '{}'; allowed are sha256, sha256_cbor, "
                           "xxhash and xxhash_cbor",
                           name)};
}

BlockHasher::BlockHasher(HashAlgorithm algorithm, const std::optional<std::string>& seed)
    : algorithm_(algorithm) {
  std::string text;
  if (seed) {
    text = *seed;
  } else {
    text = uses_sha256(algorithm) ? std::string(kConstantSeed) : random_hex_seed();
  }
  none_hash_ = digest(uses_cbor(algorithm) ? cbor_string(text) : pickle_string(text));
}

size_t BlockHasher::digest_size() const { return uses_sha256(algorithm_) ? 32 : 16; }

BlockHash BlockHasher::digest(std::string_view bytes) const {
  BlockHash out{};
  if (uses_sha256(algorithm_)) {
    SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), out.data());
  } else {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
    std::copy(std::begin(canonical.digest), std::end(canonical.digest), out.begin());
  }
  return out;
}

BlockHash BlockHasher::hash_block(const BlockHash* parent, std::span<const TokenId> tokens,
                                  std::span<const std::string_view> extra) const {
  const BlockHash& previous = parent ? *parent : none_hash_;
  const std::string_view bytes(reinterpret_cast<const char*>(previous.data()), digest_size());
  return digest(uses_cbor(algorithm_) ? cbor_block(bytes, tokens, extra)
                                      : pickle_block(bytes, tokens, extra));
}

void BlockHasher::extend(std::vector<BlockHash>& hashes, std::span<const TokenId> tokens,
                         int64_t block_size, std::string_view cache_salt) const {
  const size_t num_full = tokens.size() / static_cast<size_t>(block_size);
  while (hashes.size() < num_full) {
    const size_t i = hashes.size();
    // Later blocks inherit the salt through the chain.
    const bool salted = i == 0 && !cache_salt.empty();
    const auto extra = std::span(&cache_salt, salted ? 1 : 0);
    hashes.push_back(hash_block(i == 0 ? nullptr : &hashes[i - 1],
                                tokens.subspan(i * block_size, block_size), extra));
  }
}

int64_t block_hash_as_int(const BlockHash& hash, HashAlgorithm algorithm) {
  const size_t size = uses_sha256(algorithm) ? 32 : 16;
  uint64_t value = 0;
  for (size_t i = size - 8; i < size; ++i) value = value << 8 | hash[i];
  return static_cast<int64_t>(value);
}

}  // namespace octavo::engine
