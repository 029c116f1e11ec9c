#include "bench/python_random.h"

#include <array>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace octavo::bench {
namespace {

Mt19937 seeded(uint64_t seed) {
  const std::array<uint32_t, 2> words = {uint32_t(seed), uint32_t(seed >> 32)};
  return Mt19937(std::span(words.data(), words[1] != 0 ? 2 : 1));
}

}  // namespace

PythonRandom::PythonRandom(uint64_t seed) : bits_(seeded(seed)) {}

uint64_t PythonRandom::get_bits(int count) {
  if (count <= 32) return bits_.next32() >> (32 - count);
  const uint64_t low = bits_.next32();
  return low | (uint64_t{bits_.next32()} >> (64 - count) << 32);
}

uint64_t PythonRandom::below(uint64_t n) {
  CHECK(n > 0);
  const int count = std::bit_width(n);
  uint64_t value = get_bits(count);
  while (value >= n) value = get_bits(count);
  return value;
}

std::vector<uint64_t> PythonRandom::choices(uint64_t n, size_t k) {
  std::vector<uint64_t> out(k);
  for (uint64_t& value : out) value = uint64_t(std::floor(random() * double(n)));
  return out;
}

}  // namespace octavo::bench
