#pragma once

#include "kernels/logits/logits_params.h"
#include "kernels/simd/math.h"

namespace octavo::kernels {
namespace {

constexpr float kLargestFloat = 3.40282346638528859811704183484516925e+38f;

template <class S>
bool scan_logits_row(const float* row, int64_t size, float* max, int32_t* argmax) {
  using F = typename S::F;
  const float infinity = __builtin_inff();
  const F limit = S::set1(kLargestFloat);
  F best = S::set1(-infinity);
  uint32_t good = 0xffff;  // NaN compares false with everything
  int64_t i = 0;
  for (; i + 16 <= size; i += 16) {
    const F x = S::load(row + i);
    best = S::max(x, best);
    good &= S::mask_ge(limit, x);
  }
  bool is_valid = good == 0xffff;
  float largest = S::reduce_max(best);
  for (; i < size; ++i) {
    largest = row[i] > largest ? row[i] : largest;
    is_valid = is_valid && row[i] <= kLargestFloat;
  }
  *max = largest;
  *argmax = 0;
  if (!is_valid || !(largest > -infinity)) return false;
  for (i = 0; i + 16 <= size; i += 16) {
    const uint32_t equal = S::mask_ge(S::load(row + i), S::set1(largest));
    if (equal != 0) {
      *argmax = static_cast<int32_t>(i + __builtin_ctz(equal));
      return true;
    }
  }
  while (row[i] != largest) ++i;
  *argmax = static_cast<int32_t>(i);
  return true;
}

template <class S>
double exp_logits_row(float* out, const float* row, int64_t size, float max,
                      float inverse_temperature) {
  using F = typename S::F;
  // To base 2, so that the reduction of the argument is exact.
  const F factor = S::set1(inverse_temperature * 1.44269504088896341f);
  const F largest = S::set1(max);
  constexpr int64_t kRun = 128;  // values of which f32 may hold the sum: eight a lane
  double lanes[16] = {};
  int64_t i = 0;
  while (i + 16 <= size) {
    const int64_t end = i + kRun < size / 16 * 16 ? i + kRun : size / 16 * 16;
    F sum = S::zero();
    for (; i < end; i += 16) {
      const F e = exp2_of<S, 7>(S::mul(S::sub(S::load(row + i), largest), factor));
      if (out != nullptr) S::store(out + i, e);
      sum = S::add(sum, e);
    }
    float sums[16];
    S::store(sums, sum);
    for (int lane = 0; lane < 16; ++lane) lanes[lane] += static_cast<double>(sums[lane]);
  }
  if (i < size) {
    const int rest = static_cast<int>(size - i);
    float e[16];
    S::store(e, exp2_of<S, 7>(S::mul(S::sub(S::load_n(row + i, rest), largest), factor)));
    for (int lane = 0; lane < rest; ++lane) {
      if (out != nullptr) out[i + lane] = e[lane];
      lanes[lane] += static_cast<double>(e[lane]);
    }
  }
  double total = 0;
  for (const double lane : lanes) total += lane;
  return total;
}

template <class S>
int32_t count_at_least_row(const float* row, int64_t size, float threshold) {
  int32_t count = 0;
  int64_t i = 0;
  for (; i + 16 <= size; i += 16) {
    count += __builtin_popcount(S::mask_ge(S::load(row + i), S::set1(threshold)));
  }
  for (; i < size; ++i) count += row[i] >= threshold ? 1 : 0;
  return count;
}

template <class S>
int64_t ids_at_least_row(const float* row, int64_t size, float threshold, int32_t* ids,
                         int64_t capacity) {
  int64_t count = 0;
  int64_t i = 0;
  for (; i + 16 <= size; i += 16) {
    uint32_t found = S::mask_ge(S::load(row + i), S::set1(threshold));
    for (; found != 0; found &= found - 1) {
      if (count == capacity) return count;
      ids[count++] = static_cast<int32_t>(i + __builtin_ctz(found));
    }
  }
  for (; i < size && count < capacity; ++i) {
    if (row[i] >= threshold) ids[count++] = static_cast<int32_t>(i);
  }
  return count;
}

template <class S>
void block_maxima_row(const float* row, int64_t size, float* out) {
  using F = typename S::F;
  int64_t i = 0;
  for (; i + 64 <= size; i += 64) {
    const F a = S::max(S::load(row + i), S::load(row + i + 16));
    const F b = S::max(S::load(row + i + 32), S::load(row + i + 48));
    *out++ = S::reduce_max(S::max(a, b));
  }
  if (i == size) return;
  float largest = row[i];
  for (; i < size; ++i) largest = row[i] > largest ? row[i] : largest;
  *out = largest;
}

template <class S>
constexpr LogitsKernels logits_kernels() {
  return {scan_logits_row<S>, exp_logits_row<S>, count_at_least_row<S>, ids_at_least_row<S>,
          block_maxima_row<S>};
}

}  // namespace
}  // namespace octavo::kernels
