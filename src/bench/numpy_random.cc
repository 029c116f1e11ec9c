#include "bench/numpy_random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace octavo::bench {
namespace {

using uint128 = unsigned __int128;

constexpr uint128 wide(uint64_t high, uint64_t low) { return (uint128{high} << 64) | low; }
constexpr uint128 kPcgMultiplier = wide(0x2360ed051fc65da4, 0x4385df649fccf645);

/// numpy's SeedSequence: spreads an integer over as many words as asked (after O'Neill's
/// seed_seq_fe, 2015).
class SeedSequence {
 public:
  explicit SeedSequence(uint64_t entropy) {
    uint32_t constant = 0x43b0d7e5;
    const auto hash = [&](uint32_t value) {
      value ^= constant;
      constant *= 0x931e8875;
      value *= constant;
      return value ^ (value >> 16);
    };
    const std::array<uint32_t, 4> words = {uint32_t(entropy), uint32_t(entropy >> 32), 0, 0};
    for (size_t i = 0; i < 4; ++i) pool_[i] = hash(words[i]);
    for (size_t from = 0; from < 4; ++from) {
      for (size_t to = 0; to < 4; ++to) {
        if (from == to) continue;
        const uint32_t mixed = 0xca01f9ddu * pool_[to] - 0x4973f715u * hash(pool_[from]);
        pool_[to] = mixed ^ (mixed >> 16);
      }
    }
  }

  std::array<uint64_t, 4> generate() const {
    uint32_t constant = 0x8b51f9dd;
    std::array<uint64_t, 4> out{};
    for (size_t i = 0; i < 8; ++i) {
      uint32_t value = pool_[i % 4] ^ constant;
      constant *= 0x58f38ded;
      value *= constant;
      value ^= value >> 16;
      out[i / 2] |= uint64_t{value} << (32 * (i % 2));
    }
    return out;
  }

 private:
  std::array<uint32_t, 4> pool_{};
};

}  // namespace

NumpyGenerator::NumpyGenerator(uint64_t seed) {
  const auto words = SeedSequence(seed).generate();
  increment_ = (wide(words[2], words[3]) << 1) | 1;
  step();
  state_ += wide(words[0], words[1]);
  step();
}

void NumpyGenerator::step() { state_ = state_ * kPcgMultiplier + increment_; }

uint64_t NumpyGenerator::next64() {
  step();
  return std::rotr(uint64_t(state_ >> 64) ^ uint64_t(state_), int(state_ >> 122));
}

uint32_t NumpyGenerator::next32() {
  if (half_) {
    const uint32_t value = *half_;
    half_.reset();
    return value;
  }
  const uint64_t word = next64();
  half_ = uint32_t(word >> 32);
  return uint32_t(word);
}

std::vector<int64_t> NumpyGenerator::integers(int64_t low, int64_t high, size_t count) {
  CHECK(low < high);
  const uint64_t max = uint64_t(high) - uint64_t(low) - 1;
  std::vector<int64_t> out(count, low);
  if (max == 0) return out;
  CHECK(max < std::numeric_limits<uint32_t>::max());  // longer ranges are not asked for
  const auto size = uint32_t(max) + 1;
  const uint32_t threshold = (0u - size) % size;
  for (int64_t& value : out) {
    uint64_t product = uint64_t{next32()} * size;
    if (uint32_t(product) < size) {
      while (uint32_t(product) < threshold) product = uint64_t{next32()} * size;
    }
    value = int64_t(uint64_t(low) + (product >> 32));
  }
  return out;
}

std::vector<int64_t> NumpyGenerator::permutation(size_t count) {
  CHECK(count <= std::numeric_limits<uint32_t>::max());
  std::vector<int64_t> out(count);
  std::iota(out.begin(), out.end(), 0);
  for (size_t i = count; i-- > 1;) {
    const auto mask = uint32_t(~uint64_t{0} >> std::countl_zero(uint64_t{i}));
    uint32_t place = next32() & mask;
    while (place > i) place = next32() & mask;
    std::swap(out[i], out[place]);
  }
  return out;
}

uint64_t NumpyLegacy::masked_below(uint64_t max) {
  if (max == 0) return 0;
  CHECK(max <= std::numeric_limits<uint32_t>::max());
  const uint64_t mask = ~uint64_t{0} >> std::countl_zero(max);
  uint64_t value = bits_.next32() & mask;
  while (value > max) value = bits_.next32() & mask;
  return value;
}

std::vector<int64_t> NumpyLegacy::randint(int64_t low, int64_t high, size_t count) {
  CHECK(low < high);
  std::vector<int64_t> out(count);
  for (int64_t& value : out) {
    value = int64_t(uint64_t(low) + masked_below(uint64_t(high) - uint64_t(low) - 1));
  }
  return out;
}

std::vector<int64_t> NumpyLegacy::sample_without_replacement(int64_t n, size_t count) {
  CHECK(n >= 0 && count <= size_t(n));
  std::vector<int64_t> all(size_t(n), 0);
  std::iota(all.begin(), all.end(), 0);
  for (size_t i = all.size(); i-- > 1;) std::swap(all[i], all[masked_below(i)]);
  all.resize(count);
  return all;
}

double NumpyLegacy::standard_exponential() { return -std::log(1.0 - bits_.next_double()); }

double NumpyLegacy::gauss() {
  if (spare_gauss_) {
    const double value = *spare_gauss_;
    spare_gauss_.reset();
    return value;
  }
  double x = 0;
  double y = 0;
  double square = 0;
  do {
    x = 2.0 * bits_.next_double() - 1.0;
    y = 2.0 * bits_.next_double() - 1.0;
    square = x * x + y * y;
  } while (square >= 1.0 || square == 0.0);
  const double factor = std::sqrt(-2.0 * std::log(square) / square);
  spare_gauss_ = factor * x;
  return factor * y;
}

double NumpyLegacy::gamma(double shape, double scale) {
  CHECK(shape > 0);
  if (shape == 1.0) return scale * standard_exponential();
  if (shape < 1.0) {
    for (;;) {
      const double u = bits_.next_double();
      const double v = standard_exponential();
      if (u <= 1.0 - shape) {
        const double x = std::pow(u, 1.0 / shape);
        if (x <= v) return scale * x;
      } else {
        const double y = -std::log((1 - u) / shape);
        const double x = std::pow(1.0 - shape + shape * y, 1.0 / shape);
        if (x <= v + y) return scale * x;
      }
    }
  }
  const double b = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * b);
  for (;;) {
    double x = 0;
    double v = 0;
    do {
      x = gauss();
      v = 1.0 + c * x;
    } while (v <= 0.0);
    v = v * v * v;
    const double u = bits_.next_double();
    if (u < 1.0 - 0.0331 * (x * x) * (x * x)) return scale * b * v;
    if (std::log(u) < 0.5 * x * x + b * (1.0 - v + std::log(v))) return scale * b * v;
  }
}

}  // namespace octavo::bench
