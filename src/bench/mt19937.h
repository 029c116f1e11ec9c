#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace octavo::bench {

/// Mersenne Twister MT19937 (Matsumoto & Nishimura 1998), which Python's `random` and numpy's
/// legacy generator share; they differ in how they seed it and in what they make of its words.
class Mt19937 {
 public:
  /// numpy.random.seed(seed), the reference's init_genrand.
  explicit Mt19937(uint32_t seed);
  /// The reference's init_by_array, as random.seed(int) uses it.
  explicit Mt19937(std::span<const uint32_t> key);

  uint32_t next32();
  /// 53 random bits in [0, 1).
  double next_double();

 private:
  void refill();
  std::array<uint32_t, 624> state_;
  size_t position_ = 624;
};

}  // namespace octavo::bench
