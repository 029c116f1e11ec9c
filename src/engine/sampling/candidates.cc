#include "engine/sampling/candidates.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "kernels/logits/logits.h"

namespace octavo::engine {
namespace {

/// Fills `out` with the elements of `row` named by `ids`.
void take(std::span<const float> row, std::span<const TokenId> ids, std::vector<Candidate>& out) {
  out.clear();
  for (const TokenId id : ids) out.push_back({row[static_cast<size_t>(id)], id});
}

/// Keeps the best k, descending.
void sort_best(std::vector<Candidate>& candidates, size_t k) {
  if (k < candidates.size()) {
    const auto middle = candidates.begin() + static_cast<ptrdiff_t>(k);
    std::nth_element(candidates.begin(), middle, candidates.end(), ranks_before);
    candidates.resize(k);
  }
  std::ranges::sort(candidates, ranks_before);
}

/// Tokens by the leading bits of their weight: exponent and three bits of the mantissa. The order
/// of buckets is that of the weights.
constexpr int kBucketShift = 20;
constexpr size_t kNumBuckets = (size_t{0x3f800000} >> kBucketShift) + 1;  // of 1.0, the largest

size_t bucket_of(float weight) {
  return std::min<size_t>(std::bit_cast<uint32_t>(weight) >> kBucketShift, kNumBuckets - 1);
}

/// For flat distributions, of which thousands of tokens survive: only the bucket in which the sum
/// crosses the threshold is sorted.
void find_nucleus_by_buckets(std::span<const float> weights, double threshold,
                             std::vector<Candidate>& out) {
  std::array<double, kNumBuckets> sums{};
  for (const float weight : weights) sums[bucket_of(weight)] += weight;
  double above = 0.0;
  size_t edge = kNumBuckets - 1;
  while (edge > 0 && above + sums[edge] < threshold) above += sums[edge--];
  out.clear();
  size_t num_above = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0.0f) continue;
    const size_t bucket = bucket_of(weights[i]);
    if (bucket < edge) continue;
    out.push_back({weights[i], static_cast<TokenId>(i)});
    if (bucket > edge) std::swap(out[num_above++], out.back());
  }
  std::sort(out.begin() + static_cast<ptrdiff_t>(num_above), out.end(), ranks_before);
  cut_to_head(out, threshold, num_above, above);
}

}  // namespace

bool cut_to_head(std::vector<Candidate>& candidates, double threshold, size_t begin, double sum) {
  for (size_t i = begin; i < candidates.size(); ++i) {
    sum += candidates[i].value;
    if (sum >= threshold) {
      candidates.resize(i + 1);
      return true;
    }
  }
  return false;
}

void largest_of_row(std::span<const float> row, int64_t k, CandidateScratch& scratch,
                    std::vector<Candidate>& out) {
  out.clear();
  k = std::clamp<int64_t>(k, 0, static_cast<int64_t>(row.size()));
  if (k == 0) return;
  const auto num_blocks = static_cast<int64_t>((row.size() + kernels::kLogitsBlock - 1) /
                                               static_cast<size_t>(kernels::kLogitsBlock));
  float threshold = -std::numeric_limits<float>::infinity();
  if (k <= num_blocks) {
    // At least k elements are as large as the k-th largest of the blocks' maxima, few are larger.
    scratch.maxima.resize(static_cast<size_t>(num_blocks));
    kernels::block_maxima(row, scratch.maxima);
    const auto kth = scratch.maxima.begin() + (k - 1);
    std::nth_element(scratch.maxima.begin(), kth, scratch.maxima.end(), std::greater<>());
    threshold = *kth;
  }
  scratch.ids.resize(row.size());
  const int64_t found = kernels::ids_at_least(row, threshold, scratch.ids);
  take(row, std::span(scratch.ids).first(static_cast<size_t>(found)), out);
  sort_best(out, static_cast<size_t>(k));
}

void find_nucleus(std::span<const float> weights, double threshold, CandidateScratch& scratch,
                  std::vector<Candidate>& out) {
  // Peaked distributions, the usual ones, are decided among a handful of tokens.
  constexpr size_t kFew = 1024;
  scratch.ids.resize(std::max(weights.size(), kFew));
  for (const float smallest : {0x1p-8f, 0x1p-14f, 0x1p-24f}) {
    const std::span<TokenId> ids = std::span(scratch.ids).first(kFew);
    const int64_t found = kernels::ids_at_least(weights, smallest, ids);
    if (found == static_cast<int64_t>(kFew)) break;
    take(weights, ids.first(static_cast<size_t>(found)), out);
    std::ranges::sort(out, ranks_before);
    if (cut_to_head(out, threshold)) return;
  }
  find_nucleus_by_buckets(weights, threshold, out);
}

}  // namespace octavo::engine
