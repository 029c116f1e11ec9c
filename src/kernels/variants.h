#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/dispatch.h"

namespace octavo::kernels {

/// One row of an op's table: what it needs and where its functions are. Tables are sorted best
/// first and end with a generic row, so that a pick always succeeds.
template <class T>
struct Variant {
  Isa isa;
  T functions;
};

template <class T, size_t N>
const T& pick(const std::array<Variant<T>, N>& table) {
  const Isa isa = current_isa();
  size_t i = 0;
  while (i + 1 < N && table[i].isa > isa) ++i;
  return table[i].functions;
}

/// Rows of `num_cols` elements that make a task worth a fork in the element-wise ops: some
/// microseconds of work.
inline int64_t rows_per_task(int64_t num_cols) {
  constexpr int64_t kElements = 16 << 10;
  return num_cols >= kElements ? 1 : kElements / (num_cols > 0 ? num_cols : 1);
}

}  // namespace octavo::kernels
