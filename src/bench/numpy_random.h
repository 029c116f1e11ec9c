#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bench/mt19937.h"

namespace octavo::bench {

/// numpy.random.default_rng(seed): PCG64 (O'Neill 2014, XSL-RR 128/64) seeded through numpy's
/// SeedSequence; integers by Lemire's method (2019), as Generator.integers draws them.
class NumpyGenerator {
 public:
  explicit NumpyGenerator(uint64_t seed);

  /// rng.integers(low, high, size=count): uniform in [low, high). low < high.
  std::vector<int64_t> integers(int64_t low, int64_t high, size_t count);
  /// rng.permutation(count): 0 to count - 1 in a random order, also what rng.shuffle does to a
  /// list.
  std::vector<int64_t> permutation(size_t count);
  uint64_t next64();

 private:
  uint32_t next32();
  void step();
  unsigned __int128 state_ = 0;
  unsigned __int128 increment_ = 0;
  std::optional<uint32_t> half_;  // the upper half of a word whose lower half has been used
};

/// numpy.random.RandomState(seed), also what numpy.random.seed(seed) gives the global functions.
class NumpyLegacy {
 public:
  explicit NumpyLegacy(uint32_t seed) : bits_(seed) {}

  /// randint(low, high, size=count): uniform in [low, high). low < high.
  std::vector<int64_t> randint(int64_t low, int64_t high, size_t count);
  /// gamma(shape, scale). shape > 0. Marsaglia & Tsang (2000) from 1 on, Ahrens & Dieter below.
  double gamma(double shape, double scale);
  /// choice(n, size=count, replace=False): count <= n.
  std::vector<int64_t> sample_without_replacement(int64_t n, size_t count);

 private:
  uint64_t masked_below(uint64_t max);  // uniform in [0, max]
  double standard_exponential();
  double gauss();
  Mt19937 bits_;
  std::optional<double> spare_gauss_;
};

}  // namespace octavo::bench
