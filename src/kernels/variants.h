#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/dispatch.h"

namespace octavo::kernels {

/// What a variant needs of the CPU beside its ISA.
enum class Needs : uint8_t { kNothing, kFastBf16Dot };

/// Does this CPU have vdpbf16ps?
bool has_bf16_dot();
/// Does it do more with vdpbf16ps than with FMAs? (AMD's do, Sapphire Rapids does not.)
bool has_fast_bf16_dot();
/// Lets a test run the rows of both kinds; not where the CPU has no such dot.
void set_fast_bf16_dot_for_test(bool fast);

/// One row of an op's table: what it needs and where its functions are. Tables are sorted best
/// first and end with a generic row, so that a pick always succeeds.
template <class T>
struct Variant {
  Isa isa;
  T functions;
  Needs needs = Needs::kNothing;
};

template <class T, size_t N>
const T& pick(const std::array<Variant<T>, N>& table) {
  const Isa isa = current_isa();
  size_t i = 0;
  const auto fits = [&](const Variant<T>& row) {
    return row.isa <= isa && (row.needs == Needs::kNothing || has_fast_bf16_dot());
  };
  while (i + 1 < N && !fits(table[i])) ++i;
  return table[i].functions;
}

/// Rows of `num_cols` elements that make a task worth a fork in the element-wise ops: some
/// microseconds of work.
inline int64_t rows_per_task(int64_t num_cols) {
  constexpr int64_t kElements = 16 << 10;
  return num_cols >= kElements ? 1 : kElements / (num_cols > 0 ? num_cols : 1);
}

}  // namespace octavo::kernels
