#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/simd/fp8_forms.h"

// Sixteen lanes in two AVX2 registers; members as in simd_generic.h.

namespace octavo::kernels {
namespace {

struct SimdAvx2 {
  struct F {
    __m256 a, b;
  };
  struct I {
    __m256i a, b;
  };
#define OCTAVO_SIMD static inline __attribute__((always_inline))
  // A lane vector takes two of the 16 registers: few sums fit.
  static constexpr int kInt8Rows = 2, kInt8Panels = 1, kInt8GemvPanels = 1;
  static constexpr int kInt8TallRows = 2;
  static constexpr int kF32Rows = 4, kF32Panels = 1, kF32GemvPanels = 2;
  static constexpr int kAttentionRows = 4, kAttentionPages = 1, kAttentionDims = 1;
  static constexpr int kAttentionPanelRows = 6, kSoftmaxPages = 2;
  static constexpr bool kCodeTiles = false;
  static constexpr bool kBf16Dot = false;  // is there an instruction for pairs of bf16?
  /// Do full bytes and nibbles have one dot, and are there registers of 64 bytes?
  static constexpr bool kOneDot = false;
  /// Does this class differ from a lower one in products of bytes only?
  static constexpr bool kTilesUnpack = true;
  static constexpr bool kBytesOnly = false;

  OCTAVO_SIMD F zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  OCTAVO_SIMD F set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  OCTAVO_SIMD F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  OCTAVO_SIMD void store(float* p, F x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
  }
  OCTAVO_SIMD F load_n(const float* p, int n) {
    float x[16] = {};
    __builtin_memcpy(x, p, static_cast<size_t>(n) * 4);
    return load(x);
  }
  OCTAVO_SIMD void store_n(float* p, F v, int n) {
    float x[16];
    store(x, v);
    __builtin_memcpy(p, x, static_cast<size_t>(n) * 4);
  }
  OCTAVO_SIMD F add(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  OCTAVO_SIMD F sub(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
  OCTAVO_SIMD F mul(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  OCTAVO_SIMD F div(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  OCTAVO_SIMD F clamp(F x, float limit) { return max(set1(-limit), min(set1(limit), x)); }
  OCTAVO_SIMD F reciprocal(F x) { return div(set1(1.0f), x); }
  OCTAVO_SIMD F fma(F x, F y, F z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  OCTAVO_SIMD F max(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  OCTAVO_SIMD F min(F x, F y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }

  OCTAVO_SIMD I izero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  OCTAVO_SIMD I iset1(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  OCTAVO_SIMD I iload(const void* p) {
    const auto* const v = static_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(v), _mm256_loadu_si256(v + 1)};
  }
  OCTAVO_SIMD I iload_n(const void* p, int n) {
    int32_t x[16] = {};
    __builtin_memcpy(x, p, static_cast<size_t>(n) * 4);
    return iload(x);
  }
  OCTAVO_SIMD void istore(void* p, I x) {
    auto* const v = static_cast<__m256i*>(p);
    _mm256_storeu_si256(v, x.a);
    _mm256_storeu_si256(v + 1, x.b);
  }
  OCTAVO_SIMD I bcast4(const void* p) {
    int32_t x;
    __builtin_memcpy(&x, p, 4);
    return iset1(x);
  }
  OCTAVO_SIMD I iand(I x, I y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
  OCTAVO_SIMD I ior(I x, I y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
  OCTAVO_SIMD I iadd(I x, I y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
  OCTAVO_SIMD I isub(I x, I y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
  OCTAVO_SIMD I imax(I x, I y) { return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
  template <int N>
  OCTAVO_SIMD I srl(I x) {
    return {_mm256_srli_epi32(x.a, N), _mm256_srli_epi32(x.b, N)};
  }
  template <int N>
  OCTAVO_SIMD I sll(I x) {
    return {_mm256_slli_epi32(x.a, N), _mm256_slli_epi32(x.b, N)};
  }
  OCTAVO_SIMD I srl(I a, int n) { return {_mm256_srli_epi32(a.a, n), _mm256_srli_epi32(a.b, n)}; }
  OCTAVO_SIMD I sll(I a, int n) { return {_mm256_slli_epi32(a.a, n), _mm256_slli_epi32(a.b, n)}; }
  template <int N>
  OCTAVO_SIMD I sra(I x) {
    return {_mm256_srai_epi32(x.a, N), _mm256_srai_epi32(x.b, N)};
  }
  OCTAVO_SIMD I or_masked(I x, I y, I mask) { return ior(x, iand(y, mask)); }
  OCTAVO_SIMD F to_f(I x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
  OCTAVO_SIMD F as_f(I x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
  OCTAVO_SIMD I as_i(F x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
  OCTAVO_SIMD I round_i(F x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
  /// The low halves of 16 lanes (each below 2^16) side by side.
  OCTAVO_SIMD __m256i pack_halves(I x) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(x.a, x.b), 0xd8);
  }
  OCTAVO_SIMD F widen_halves(__m256i h) {
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(h)),
            _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1))};
  }
  OCTAVO_SIMD F half_to_f(I h) { return widen_halves(pack_halves(h)); }
  OCTAVO_SIMD F load_f16(const void* p) {
    return widen_halves(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
  /// Even and odd bytes as 16-bit numbers: exact for all of 0..255 times -128..127.
  OCTAVO_SIMD __m256i dot_bytes(__m256i acc, __m256i w, __m256i x) {
    const __m256i even = _mm256_madd_epi16(_mm256_and_si256(w, _mm256_set1_epi16(255)),
                                           _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(w, 8), _mm256_srai_epi16(x, 8));
    return _mm256_add_epi32(acc, _mm256_add_epi32(even, odd));
  }
  OCTAVO_SIMD I dpbusd(I acc, I w, I x) {
    return {dot_bytes(acc.a, w.a, x.a), dot_bytes(acc.b, w.b, x.b)};
  }
  /// For w up to 127: pairs of products fit into 16 bits.
  OCTAVO_SIMD I dpbusd_nibbles(I acc, I w, I x) {
    const __m256i ones = _mm256_set1_epi16(1);
    return {_mm256_add_epi32(acc.a, _mm256_madd_epi16(_mm256_maddubs_epi16(w.a, x.a), ones)),
            _mm256_add_epi32(acc.b, _mm256_madd_epi16(_mm256_maddubs_epi16(w.b, x.b), ones))};
  }
  OCTAVO_SIMD I bf16_bits(F x) {
    const I bits = as_i(x);
    const I lowest = iand(srl<16>(bits), iset1(1));
    const I rounded = srl<16>(iadd(iadd(bits, iset1(0x7fff)), lowest));
    // A NaN whose payload lies in the dropped half must not turn into infinity.
    const I nan = ior(srl<16>(bits), iset1(0x40));
    const __m256 is_nan_a = _mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q);
    const __m256 is_nan_b = _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q);
    return {_mm256_blendv_epi8(rounded.a, nan.a, _mm256_castps_si256(is_nan_a)),
            _mm256_blendv_epi8(rounded.b, nan.b, _mm256_castps_si256(is_nan_b))};
  }
  OCTAVO_SIMD F round_bf16(F x) { return as_f(sll<16>(bf16_bits(x))); }
  OCTAVO_SIMD I f16_bits(F x) {
    return {_mm256_cvtepu16_epi32(_mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT)),
            _mm256_cvtepu16_epi32(_mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT))};
  }
  OCTAVO_SIMD F round_f16(F x) {
    return {_mm256_cvtph_ps(_mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT)),
            _mm256_cvtph_ps(_mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT))};
  }
  OCTAVO_SIMD F keep_lanes(F x, int begin, int end, float other) {
    const I lane = {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                    _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
    const I first = iset1(begin);
    const I last = iset1(end - 1);
    const F y = set1(other);
    const auto one = [&](__m256 v, __m256 o, __m256i l, __m256i f, __m256i e)
        __attribute__((always_inline)) {
      const __m256i outside = _mm256_or_si256(_mm256_cmpgt_epi32(f, l), _mm256_cmpgt_epi32(l, e));
      return _mm256_blendv_ps(v, o, _mm256_castsi256_ps(outside));
    };
    return {one(x.a, y.a, lane.a, first.a, last.a), one(x.b, y.b, lane.b, first.b, last.b)};
  }
  template <int H>
  OCTAVO_SIMD F xor_lanes(F x) {
    if constexpr (H == 1) return {_mm256_permute_ps(x.a, 0xb1), _mm256_permute_ps(x.b, 0xb1)};
    if constexpr (H == 2) return {_mm256_permute_ps(x.a, 0x4e), _mm256_permute_ps(x.b, 0x4e)};
    if constexpr (H == 4) {
      return {_mm256_permute2f128_ps(x.a, x.a, 1), _mm256_permute2f128_ps(x.b, x.b, 1)};
    }
    if constexpr (H == 8) return {x.b, x.a};
  }
  OCTAVO_SIMD F zero_below(F x, F y, float bound) {
    const __m256 b = _mm256_set1_ps(bound);
    return {_mm256_and_ps(x.a, _mm256_cmp_ps(y.a, b, _CMP_NLT_UQ)),
            _mm256_and_ps(x.b, _mm256_cmp_ps(y.b, b, _CMP_NLT_UQ))};
  }
  OCTAVO_SIMD uint32_t mask_ge(F x, F y) {
    const int low = _mm256_movemask_ps(_mm256_cmp_ps(x.a, y.a, _CMP_GE_OQ));
    const int high = _mm256_movemask_ps(_mm256_cmp_ps(x.b, y.b, _CMP_GE_OQ));
    return static_cast<uint32_t>(low | high << 8);
  }
  OCTAVO_SIMD float reduce_add(F x) {
    const __m256 eight = _mm256_add_ps(x.a, x.b);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  OCTAVO_SIMD float reduce_max(F x) {
    const __m256 eight = _mm256_max_ps(x.a, x.b);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  /// op of each of four vectors' lanes, side by side: halves of neighbours, then quarters.
  template <class Op>
  OCTAVO_SIMD void store_reduced4(void* p, I x, I y, I z, I w, Op op) {
    const __m256i a = op(x.a, x.b), b = op(y.a, y.b), c = op(z.a, z.b), d = op(w.a, w.b);
    const __m256i ab = op(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    const __m256i cd = op(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    const __m256i all = op(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
    const __m256i both = op(all, _mm256_permute2x128_si256(all, all, 1));
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_castsi256_si128(both));
  }
  OCTAVO_SIMD void store_max4(void* p, I x, I y, I z, I w) {
    store_reduced4(p, x, y, z, w, [](__m256i l, __m256i r) { return _mm256_max_epi32(l, r); });
  }
  OCTAVO_SIMD void store_add4(void* p, I x, I y, I z, I w) {
    store_reduced4(p, x, y, z, w, [](__m256i l, __m256i r) { return _mm256_add_epi32(l, r); });
  }
  OCTAVO_SIMD void store_bytes_of(void* p, I x, I y) {
    // Packing works in halves of a register: of every half vector four bytes in each.
    const __m256i mixed =
        _mm256_packs_epi16(_mm256_packs_epi32(x.a, x.b), _mm256_packs_epi32(y.a, y.b));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm256_permutevar8x32_epi32(mixed, order));
  }
  OCTAVO_SIMD void store_bytes2(void* p, void* r, I x, I y, I z, I w) {
    store_bytes_of(p, x, y);
    store_bytes_of(r, z, w);
  }
  OCTAVO_SIMD void store_low_bytes(void* p, I x) {
    const I low = iand(x, iset1(255));
    const __m256i halves = pack_halves(low);
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    _mm_storeu_si128(static_cast<__m128i*>(p), bytes);
  }
  OCTAVO_SIMD void store_low_halves(void* p, I x) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), pack_halves(iand(x, iset1(0xffff))));
  }
  template <class Form>
  OCTAVO_SIMD __m256i widen_16_bytes(__m128i codes) {
    // The sign fills the upper byte; exponent and mantissa move to their place.
    const __m256i x = _mm256_cvtepi8_epi16(codes);
    const __m256i moved = _mm256_and_si256(_mm256_slli_epi16(x, Form::kMove),
                                           _mm256_set1_epi16(static_cast<int16_t>(Form::kKeep)));
    const __m256i normal = _mm256_add_epi16(moved, _mm256_set1_epi16(Form::kRebias));
    // Subnormals come from a table: low bytes from its first half, high bytes from its second.
    const __m256i magnitude = _mm256_and_si256(x, _mm256_set1_epi16(0x7f));
    const __m256i both = _mm256_or_si256(magnitude, _mm256_slli_epi16(magnitude, 8));
    const __m256i index = _mm256_or_si256(both, _mm256_set1_epi16(0x0800));
    const __m256i table = _mm256_broadcastsi128_si256(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(kFp8Table<Form>.low_ends)));
    const __m256i sign = _mm256_and_si256(x, _mm256_set1_epi16(INT16_MIN));
    const __m256i tiny = _mm256_or_si256(_mm256_shuffle_epi8(table, index), sign);
    const __m256i is_tiny = _mm256_cmpgt_epi16(_mm256_set1_epi16(Form::kNumLow), magnitude);
    const __m256i finite = _mm256_blendv_epi8(normal, tiny, is_tiny);
    const __m256i is_special =
        _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(0x7f - Form::kNumHigh));
    return _mm256_or_si256(finite,
                           _mm256_and_si256(is_special, _mm256_set1_epi16(Form::kHighBits)));
  }
  template <class Form>
  OCTAVO_SIMD void widen_bytes(void* to, const void* from) {
    const auto* const codes = static_cast<const __m128i*>(from);
    istore(to, {widen_16_bytes<Form>(_mm_loadu_si128(codes)),
                widen_16_bytes<Form>(_mm_loadu_si128(codes + 1))});
  }
  template <class Form>
  OCTAVO_SIMD void split_codes(void* even, void* odd, const void* from) {
    for (int i = 0; i < 2; ++i) {
      const __m256i x = _mm256_loadu_si256(static_cast<const __m256i*>(from) + i);
      __m256i low = _mm256_slli_epi16(x, 8), high;
      if constexpr (Form::kMantissaBits == 3) {
        low = _mm256_and_si256(_mm256_srai_epi16(low, 1), _mm256_set1_epi16(int16_t(0xbfff)));
        high = _mm256_and_si256(_mm256_srai_epi16(x, 1), _mm256_set1_epi16(int16_t(0xbf80)));
      } else {
        high = _mm256_and_si256(x, _mm256_set1_epi16(int16_t(0xff00)));
      }
      _mm256_storeu_si256(static_cast<__m256i*>(even) + i, low);
      _mm256_storeu_si256(static_cast<__m256i*>(odd) + i, high);
    }
  }
  template <class Form>
  OCTAVO_SIMD bool any_code_above(const std::byte* p, int count) {
    bool any = false;
    int i = 0;
    __m256i most = _mm256_setzero_si256();
    for (; i + 32 <= count; i += 32) {
      const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i));
      most = _mm256_max_epu8(most, _mm256_and_si256(x, _mm256_set1_epi8(0x7f)));
    }
    const __m256i above = _mm256_cmpgt_epi8(most, _mm256_set1_epi8(Form::kLargestCode));
    any = _mm256_movemask_epi8(above) != 0;
    for (; i < count; ++i) any |= (static_cast<int>(p[i]) & 0x7f) > Form::kLargestCode;
    return any;
  }
  OCTAVO_SIMD void prefetch(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
  }
  OCTAVO_SIMD void prefetch_l2(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
  }
};

}  // namespace
}  // namespace octavo::kernels
