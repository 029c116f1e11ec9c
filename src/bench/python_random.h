#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "bench/mt19937.h"

namespace octavo::bench {

/// Python's `random.Random(seed)`: the calls that the datasets make, value for value. Seeds are not
/// negative (Python takes the absolute value).
class PythonRandom {
 public:
  explicit PythonRandom(uint64_t seed);

  double random() { return bits_.next_double(); }
  /// Uniform in [0, n): random.randrange(n), random.choice's index. n is at least 1.
  uint64_t below(uint64_t n);
  /// random.choices without weights: k indices in [0, n).
  std::vector<uint64_t> choices(uint64_t n, size_t k);

  template <class T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i-- > 1;) std::swap(items[i], items[below(i + 1)]);
  }

 private:
  uint64_t get_bits(int count);
  Mt19937 bits_;
};

}  // namespace octavo::bench
