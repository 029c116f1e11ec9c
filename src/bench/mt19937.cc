#include "bench/mt19937.h"

#include <algorithm>

namespace octavo::bench {
namespace {

constexpr size_t kSize = 624;
constexpr size_t kShift = 397;

}  // namespace

Mt19937::Mt19937(uint32_t seed) {
  state_[0] = seed;
  for (uint32_t i = 1; i < kSize; ++i) {
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  }
}

Mt19937::Mt19937(std::span<const uint32_t> key) : Mt19937(19650218u) {
  size_t i = 1;
  size_t j = 0;
  const auto wrap = [&] {
    if (++i < kSize) return;
    state_[0] = state_[kSize - 1];
    i = 1;
  };
  for (size_t k = std::max(kSize, key.size()); k > 0; --k) {
    state_[i] =
        (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * 1664525u)) + key[j] + uint32_t(j);
    wrap();
    if (++j >= key.size()) j = 0;
  }
  for (size_t k = kSize - 1; k > 0; --k) {
    state_[i] = (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * 1566083941u)) - uint32_t(i);
    wrap();
  }
  state_[0] = 0x80000000u;
}

void Mt19937::refill() {
  for (size_t i = 0; i < kSize; ++i) {
    const uint32_t y = (state_[i] & 0x80000000u) | (state_[(i + 1) % kSize] & 0x7fffffffu);
    state_[i] = state_[(i + kShift) % kSize] ^ (y >> 1) ^ ((y & 1) != 0 ? 0x9908b0dfu : 0u);
  }
  position_ = 0;
}

uint32_t Mt19937::next32() {
  if (position_ >= kSize) refill();
  uint32_t y = state_[position_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

double Mt19937::next_double() {
  const uint32_t high = next32() >> 5;
  const uint32_t low = next32() >> 6;
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

}  // namespace octavo::bench
