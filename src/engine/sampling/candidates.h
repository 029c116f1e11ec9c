#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"

// Which tokens of a row come first. Results depend on the row alone (promise P1).

namespace octavo::engine {

struct Candidate {
  float value = 0.0f;
  TokenId token = 0;
};

/// Order of candidates: larger first, equal ones by ascending id.
constexpr bool ranks_before(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.token < b.token);
}

/// Cuts candidates to the head whose sum reaches the threshold (> 0): from `begin` on they are
/// sorted, those before it sum to `sum`. False: they do not reach it, and all stay.
bool cut_to_head(std::vector<Candidate>& candidates, double threshold, size_t begin = 0,
                 double sum = 0.0);

/// Memory of the searches below; grows to the vocabulary once.
struct CandidateScratch {
  std::vector<float> maxima;
  std::vector<TokenId> ids;
};

/// The k largest, descending; equal values by ascending id. k is clamped to the row's size.
void largest_of_row(std::span<const float> row, int64_t k, CandidateScratch& scratch,
                    std::vector<Candidate>& out);

/// The nucleus: the smallest head of the tokens in the order of `ranks_before` whose weights sum to
/// `threshold`; all with weight if rounding lets none. In no particular order, but always in the
/// same.
///   weights  [vocab_size] >= 0, the largest is 1
void find_nucleus(std::span<const float> weights, double threshold, CandidateScratch& scratch,
                  std::vector<Candidate>& out);

}  // namespace octavo::engine
