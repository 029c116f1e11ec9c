#pragma once

#include "kernels/attention/panel_impl.h"
#include "kernels/simd/fp8_forms.h"

// Panels of a one-byte cache. A code becomes a half by moving its bits (for e4m3 with the exponent
// 8 too low, subnormals included), a line of 64 codes at once, and one instruction widens 16 halves
// that it reads from memory. Few rows take panels too: a code costs more to widen than two bytes
// do, and is widened once.

namespace octavo::kernels {
namespace {

/// Codes of one byte as an element type of the cache; only panels read them.
template <class Form>
struct KvCodes {
  using Codes = Form;
  static constexpr int kParts = 2;
  static constexpr int kIndex[2] = {1, 0};  // the size is for clang 14, in a template
  static constexpr bool kRounded = true;
  static constexpr int kExpDegree = 5;
  static constexpr bool kCodes = true;
  /// Panels hold values divided by this. Queries and weights, multiplied by it, make up for it:
  /// powers of two, so the products and their sums keep their bits.
  static constexpr float kFactor = Form::kHalfFactor;
};

/// 32 pairs of codes as halves: those of the even codes, then those of the odd ones.
struct CodeLine {
  alignas(64) std::byte even[64];
  std::byte odd[64];
};

template <class S, class Form>
__attribute__((always_inline)) inline void split_line(const std::byte* from, int bytes,
                                                      CodeLine& line) {
  if (bytes >= 64) return S::template split_codes<Form>(line.even, line.odd, from);
  std::byte padded[64] = {};
  __builtin_memcpy(padded, from, static_cast<size_t>(bytes));
  S::template split_codes<Form>(line.even, line.odd, padded);
}

/// 16 pairs into two panel rows, from the first or second half of the line.
template <class S>
__attribute__((always_inline)) inline void store_pairs(const CodeLine& line, int half, float* to) {
  constexpr int kStride = 16 * S::kAttentionPages;
  S::store(to, S::load_f16(line.even + 32 * half));
  S::store(to + kStride, S::load_f16(line.odd + 32 * half));
}

/// e4m3's NaN has no half of its own: where `codes` holds one, `element(i)` becomes NaN.
template <class Form, class F>
void mend_nan(const std::byte* codes, int count, F element) {
  for (int i = 0; i < count; ++i) {
    if ((static_cast<int>(codes[i]) & 0x7f) > Form::kLargestCode) {
      *element(i) = __builtin_nanf("");
    }
  }
}

/// As widen_keys; asks meanwhile for the values of the same pages and the keys of the next one.
template <class S, class Form>
void widen_code_keys(const AttentionCall& call, const ChunkView& view, int page, int pages,
                     int64_t dim, int dims, float* panel) {
  constexpr int kStride = 16 * S::kAttentionPages;
  const int64_t offset = 16 * dim;
  const int bytes = 16 * dims;
  for (int n = 0; n < pages; ++n) {
    const std::byte* const from = view.pages[page + n] + offset;
    const std::byte* const values = from + call.v_offset;
    const bool is_last = page + n + 1 >= view.page_end;
    const std::byte* const ahead = is_last ? from : view.pages[page + n + 1] + offset;
    float* const to = panel_vector<S>(panel, n);
    float* row = to;
    for (int i = 0; i < bytes; i += 64, row += 4 * kStride) {
      S::prefetch(ahead + i);
      S::prefetch(values + i);
      CodeLine line;
      split_line<S, Form>(from + i, bytes - i, line);
      store_pairs<S>(line, 0, row);
      if (bytes - i >= 64) store_pairs<S>(line, 1, row + 2 * kStride);
    }
    if (!Form::kHasInfinity && S::template any_code_above<Form>(from, bytes)) {
      mend_nan<Form>(from, bytes,
                     [&](int i) { return to + (i / 32 * 2 + i % 2) * kStride + i % 32 / 2; });
    }
  }
}

/// As widen_values; asks meanwhile for the keys of `next` from `early` bytes on.
template <class S, class Form>
void widen_code_values(const AttentionCall& call, const ChunkView& view, const ChunkView& next,
                       size_t early, int page, int pages, int64_t dim, int dims, float* panel) {
  constexpr int kStride = 16 * S::kAttentionPages;
  const auto v_stride = static_cast<size_t>(call.head_dim) * 2;
  const int seen = view.key_end - 16 * page;
  const int keys = seen < 16 * pages ? seen : 16 * pages;
  for (int key = 0; key < keys; key += 2) {
    const int p = page + key / 16;
    const auto pair = static_cast<size_t>(key % 16 / 2);
    const std::byte* const from = view.pages[p] + call.v_offset + 2 * dim + pair * v_stride;
    const size_t ahead = early + 2 * static_cast<size_t>(dim) + pair * v_stride;  // in its keys
    const bool fetch = p >= next.page_begin && p < next.page_end && ahead < call.v_offset;
    for (int d = 0; d < dims; d += 32) {
      if (fetch) S::prefetch_l2(next.pages[p] + ahead + 2 * d);
      CodeLine line;
      split_line<S, Form>(from + 2 * d, 2 * (dims - d), line);
      store_pairs<S>(line, 0, panel_vector<S>(panel, d / 16) + key * kStride);
      if (dims - d > 16) {
        store_pairs<S>(line, 1, panel_vector<S>(panel, d / 16 + 1) + key * kStride);
      }
    }
    if (!Form::kHasInfinity && S::template any_code_above<Form>(from, 2 * dims)) {
      mend_nan<Form>(from, 2 * dims, [&](int i) {
        return panel_vector<S>(panel, i / 32) + (key + i % 2) * kStride + i % 32 / 2;
      });
    }
  }
  if (keys % 2 != 0) {
    for (int d = 0; d < dims; d += 16) {
      S::store(panel_vector<S>(panel, d / 16) + keys * kStride, S::zero());
    }
  }
}

}  // namespace
}  // namespace octavo::kernels
