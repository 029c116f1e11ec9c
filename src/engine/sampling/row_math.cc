#include "engine/sampling/row_math.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>

namespace octavo::engine {
namespace {

constexpr size_t kLanes = 16;   // one AVX-512 register, four SSE2 registers
constexpr size_t kChunk = 512;  // values whose exps are kept on the stack

/// exp for x <= 0, relative error below 2e-7 (Cephes expf: argument reduction by ln 2 in two parts,
/// then a polynomial of degree 6). Without branches, so loops over it vectorise.
inline float exp_of_negative(float x) {
  constexpr float kLog2E = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kSmallest = -87.0f;    // below, the result is taken as 0
  const float clamped = x > kSmallest ? x : kSmallest;
  const float n = (clamped * kLog2E + kRound) - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const float scale = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  return x > kSmallest ? p * scale : 0.0f;
}

}  // namespace

RowScan scan_row(std::span<const float> row) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::array<float, kLanes> best;
  best.fill(-kInfinity);
  std::array<int32_t, kLanes> bad{};  // NaN compares false with everything
  size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float x = row[i + lane];
      best[lane] = x > best[lane] ? x : best[lane];
      bad[lane] |= x <= FLT_MAX ? 0 : 1;
    }
  }
  RowScan scan{-kInfinity, 0, true};
  for (; i < row.size(); ++i) {
    scan.max = std::max(scan.max, row[i]);
    scan.is_valid &= row[i] <= FLT_MAX;
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    scan.max = std::max(scan.max, best[lane]);
    scan.is_valid &= bad[lane] == 0;
  }
  scan.is_valid &= scan.max > -kInfinity;
  if (scan.is_valid) {
    scan.argmax = static_cast<TokenId>(std::ranges::find(row, scan.max) - row.begin());
  }
  return scan;
}

void exp_of_row(std::span<const float> row, float max, float inverse_temperature,
                std::span<float> out) {
  for (size_t i = 0; i < row.size(); ++i) {
    out[i] = exp_of_negative((row[i] - max) * inverse_temperature);
  }
}

double sum_of_exp(std::span<const float> row, float max) {
  std::array<double, kLanes> sums{};
  std::array<float, kChunk> exps;
  for (size_t begin = 0; begin < row.size(); begin += kChunk) {
    const size_t count = std::min(kChunk, row.size() - begin);
    exp_of_row(row.subspan(begin, count), max, 1.0f, exps);
    std::fill(exps.begin() + static_cast<ptrdiff_t>(count), exps.end(), 0.0f);
    for (size_t i = 0; i < kChunk; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += exps[i + lane];
    }
  }
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return total;
}

int32_t count_at_least(std::span<const float> row, float value) {
  int32_t count = 0;
  for (const float x : row) count += x >= value ? 1 : 0;
  return count;
}

void largest_of_row(std::span<const float> row, int64_t k, std::vector<Candidate>& out) {
  out.clear();
  k = std::clamp<int64_t>(k, 0, static_cast<int64_t>(row.size()));
  if (k == 0) return;
  constexpr int64_t kHeapLimit = 512;  // beyond, most of the row would pass through the heap
  if (k > kHeapLimit) {
    for (size_t i = 0; i < row.size(); ++i) out.push_back({row[i], static_cast<TokenId>(i)});
    if (k < static_cast<int64_t>(out.size())) {
      std::nth_element(out.begin(), out.begin() + k, out.end(), ranks_before);
      out.resize(k);
    }
    std::ranges::sort(out, ranks_before);
    return;
  }
  // A heap with the worst of the best k on top. Ids ascend, so an equal value never replaces one.
  for (size_t begin = 0; begin < row.size(); begin += kLanes) {
    const size_t end = std::min(begin + kLanes, row.size());
    const bool is_full = static_cast<int64_t>(out.size()) == k;
    if (is_full && end - begin == kLanes) {
      const float threshold = out.front().value;
      int any = 0;
      for (size_t lane = 0; lane < kLanes; ++lane) any |= row[begin + lane] > threshold ? 1 : 0;
      if (any == 0) continue;
    }
    for (size_t i = begin; i < end; ++i) {
      const Candidate candidate{row[i], static_cast<TokenId>(i)};
      if (static_cast<int64_t>(out.size()) < k) {
        out.push_back(candidate);
        std::ranges::push_heap(out, ranks_before);
      } else if (ranks_before(candidate, out.front())) {
        std::ranges::pop_heap(out, ranks_before);
        out.back() = candidate;
        std::ranges::push_heap(out, ranks_before);
      }
    }
  }
  std::ranges::sort(out, ranks_before);
}

}  // namespace octavo::engine
