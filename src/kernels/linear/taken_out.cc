#include "kernels/linear/taken_out.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace octavo::kernels {
namespace {

/// The largest magnitude of a row's blocks against their mean.
constexpr float kTooMuch = 3.0f;

static_assert(offsetof(ActivationBlock, s) == offsetof(HalvesActivationBlock, s));

}  // namespace

int64_t block_with_too_much(const std::byte* records, size_t record_bytes, int64_t num_blocks) {
  float even = 0, odd = 0;  // two chains: an addition takes four cycles
  // The largest scale and where it is first, in one number: a branch would be guessed wrongly.
  int64_t most = 0;
  const std::byte* p = records + offsetof(ActivationBlock, s);
  const auto scale_at = [&](int64_t i) {
    int32_t bits;
    std::memcpy(&bits, p + static_cast<size_t>(i) * record_bytes, 4);
    const int64_t key = int64_t{bits} << 32 | (INT32_MAX - i);
    most = key > most ? key : most;
    return std::bit_cast<float>(bits);  // NaN of a block that is not finite
  };
  int64_t i = 0;
  for (; i + 2 <= num_blocks; i += 2) {
    even += scale_at(i);
    odd += scale_at(i + 1);
  }
  if (i < num_blocks) even += scale_at(i);
  const auto largest = std::bit_cast<float>(static_cast<int32_t>(most >> 32));
  const bool is_too_much = largest * static_cast<float>(num_blocks) > kTooMuch * (even + odd);
  return is_too_much ? INT32_MAX - (most & INT32_MAX) : -1;
}

TakenOut take_out_largest(float* rest, const float* x) {
  // Loops without branches, which the compiler turns into vectors. Magnitudes order like integers.
  int32_t magnitudes[kQuantBlock];
  std::memcpy(magnitudes, x, sizeof magnitudes);
  int32_t most = 0;
  for (int32_t& magnitude : magnitudes) {
    magnitude &= 0x7fffffff;
    most = magnitude > most ? magnitude : most;
  }
  int32_t at = kQuantBlock;
  for (int32_t i = 0; i < kQuantBlock; ++i) {
    const int32_t candidate = magnitudes[i] == most ? i : kQuantBlock;
    at = candidate < at ? candidate : at;
  }
  std::memcpy(rest, x, kQuantBlock * sizeof(float));
  rest[at] = 0;
  return {x[at], at};
}

TakenColumns number_columns(TakenOut* taken, int64_t num_rows, int32_t* columns, int32_t* places,
                            int64_t num_cols) {
  int count = 1;
  for (int64_t row = 0; row < num_rows; ++row) {
    TakenOut& of_row = taken[row];
    const int32_t column = of_row.slot;
    if (column < 0) {
      of_row = {};
      continue;
    }
    if (count > 1) {
      if (column == columns[count - 1]) {  // nearly always
        of_row.slot = count - 1;
        continue;
      }
      if (count == 2) {
        std::fill_n(places, num_cols, 0);
        places[columns[1]] = 1;
      }
      if (places[column] != 0) {
        of_row.slot = places[column];
        continue;
      }
      places[column] = count;
    }
    columns[count] = column;
    of_row.slot = count++;
  }
  if (count == 1) return {};
  return {taken, columns, count};
}

}  // namespace octavo::kernels
