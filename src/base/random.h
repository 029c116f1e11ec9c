#pragma once

#include <array>
#include <cstdint>

namespace octavo {

/// Philox4x32-10 (Salmon et al., SC'11, table 2): 128 random bits from a counter and a key, without
/// state. The same (key, counter) gives the same bits whatever else has been drawn, which is what
/// lets sampled output keep promise P1.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> ctr,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * ctr[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * ctr[2];
    ctr = {uint32_t(p1 >> 32) ^ ctr[1] ^ key[0], uint32_t(p1), uint32_t(p0 >> 32) ^ ctr[3] ^ key[1],
           uint32_t(p0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return ctr;
}

/// Uniform in (0, 1), never 0 or 1: 24 random bits plus a half.
constexpr float uniform_from_bits(uint32_t bits) {
  return (static_cast<float>(bits >> 8) + 0.5f) * (1.0f / 16777216.0f);
}

/// A seeded generator for tests and dummy weights (splitmix64); not for sampling.
class SplitMix64 {
 public:
  explicit constexpr SplitMix64(uint64_t seed) : state_(seed) {}
  constexpr uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, bound).
  constexpr uint64_t below(uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
  constexpr float uniform() { return uniform_from_bits(static_cast<uint32_t>(next() >> 32)); }

 private:
  uint64_t state_;
};

}  // namespace octavo
