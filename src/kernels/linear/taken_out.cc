#include "kernels/linear/taken_out.h"

#include <algorithm>
#include <cstring>

namespace octavo::kernels {
namespace {

/// The largest magnitude of a row's blocks against their mean.
constexpr float kTooMuch = 3.0f;

static_assert(offsetof(ActivationBlock, s) == offsetof(HalvesActivationBlock, s));

uint32_t magnitude_bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits & 0x7fffffffu;
}

}  // namespace

int64_t block_with_too_much(const std::byte* records, size_t record_bytes, int64_t num_blocks) {
  float sum[4] = {};  // more than one chain: an addition takes four cycles
  float most = 0;
  int64_t at = -1;
  const std::byte* p = records + offsetof(ActivationBlock, s);
  for (int64_t i = 0; i < num_blocks; ++i, p += record_bytes) {
    float scale;
    std::memcpy(&scale, p, 4);
    sum[i % 4] += scale;  // NaN of a block that is not finite
    if (scale > most) {
      most = scale;
      at = i;
    }
  }
  const float mean_times = kTooMuch * ((sum[0] + sum[1]) + (sum[2] + sum[3]));
  return most * static_cast<float>(num_blocks) > mean_times ? at : -1;
}

TakenOut take_out_largest(std::byte* record, const float* x, LinearPrepare prepare) {
  alignas(64) float rest[kQuantBlock];
  uint32_t most = 0;
  int32_t at = 0;
  for (int32_t i = 0; i < kQuantBlock; ++i) {
    rest[i] = x[i];
    if (magnitude_bits(x[i]) > most) {
      most = magnitude_bits(x[i]);
      at = i;
    }
  }
  rest[at] = 0;
  prepare({record, 0, rest, kQuantBlock, 1, kQuantBlock});
  return {x[at], at};
}

int number_columns(TakenOut* taken, int64_t num_rows, int32_t* columns, int32_t* places,
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
  return count;
}

}  // namespace octavo::kernels
