#pragma once

#include <cstdint>
#include <span>

namespace octavo::kernels {

// Passes over one row of logits or of weights, [vocab_size] f32, on the calling thread: rows of a
// batch are sampled on different threads. Each has a fixed order of operations that depends on the
// row's length alone, so a row gives the same bits in any batch and on any thread (promise P1).

struct LogitsScan {
  float max = 0.0f;
  int32_t argmax = 0;    // lowest id among equals
  bool is_valid = true;  // no NaN, no +inf, not all -inf
};
LogitsScan scan_logits(std::span<const float> row);

/// out[i] = exp((row[i] - max) * inverse_temperature), 0 below about e^-87; -inf gives 0. Returns
/// the sum. `out` has the row's size and may be the row.
double exp_logits(std::span<const float> row, float max, float inverse_temperature,
                  std::span<float> out);

/// Sum of exp(row[i] - max).
double sum_exp_logits(std::span<const float> row, float max);

/// How many elements are >= threshold.
int32_t count_at_least(std::span<const float> row, float threshold);

/// Ids of the elements that are >= threshold, ascending, the first `ids.size()` of them. Returns
/// how many were written.
int64_t ids_at_least(std::span<const float> row, float threshold, std::span<int32_t> ids);

/// out[b] = the largest of elements [64 b, 64 b + 64): of ceil(row.size() / 64) blocks.
inline constexpr int64_t kLogitsBlock = 64;
void block_maxima(std::span<const float> row, std::span<float> out);

}  // namespace octavo::kernels
