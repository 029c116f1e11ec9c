#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"

// Reductions over one row of logits, [vocab_size] f32. Each has a fixed order of operations that
// depends on the row's length alone, so a row gives the same bits in any batch and on any thread
// (promise P1). Written so that the compiler vectorises them.

namespace octavo::engine {

struct RowScan {
  float max = 0.0f;
  TokenId argmax = 0;    // lowest id among equals
  bool is_valid = true;  // no NaN, no +inf, not all -inf
};
RowScan scan_row(std::span<const float> row);

/// Sum of exp(row[i] - max), in f64.
double sum_of_exp(std::span<const float> row, float max);

/// out[i] = exp((row[i] - max) * inverse_temperature); -inf gives 0. `out` has the row's size.
void exp_of_row(std::span<const float> row, float max, float inverse_temperature,
                std::span<float> out);

/// How many elements are >= value.
int32_t count_at_least(std::span<const float> row, float value);

struct Candidate {
  float value = 0.0f;
  TokenId token = 0;
};
/// The k largest, descending; equal values by ascending id. k is clamped to the row's size.
void largest_of_row(std::span<const float> row, int64_t k, std::vector<Candidate>& out);

/// Order of candidates: larger first, equal ones by ascending id.
constexpr bool ranks_before(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.token < b.token);
}

}  // namespace octavo::engine
