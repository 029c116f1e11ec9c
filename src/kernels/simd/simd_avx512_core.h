#pragma once

#if defined(__GNUC__) && !defined(__clang__)
// False positives of g++ 12 about the deliberately undefined operands inside its own intrinsics.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/simd/fp8_forms.h"

// Sixteen lanes in one AVX-512 register (F, BW, DQ and VL); members as in simd_generic.h.

namespace octavo::kernels {
namespace {

struct SimdAvx512Core {
  using F = __m512;
  using I = __m512i;
#define OCTAVO_SIMD static inline __attribute__((always_inline))
  // 6x2: twelve integer sums, as many as two pipes with a latency of five need and some to spare at
  // the ends of blocks; twelve float sums, two weights, two scales, a broadcast: 29 of 32.
  static constexpr int kInt8Rows = 6, kInt8Panels = 2, kInt8GemvPanels = 2;
  static constexpr int kInt8TallRows = 8;
  // 8x3: 24 sums, three weights, a broadcast: 28 of 32. One row needs several chains to hide the
  // latency of an FMA.
  static constexpr int kF32Rows = 8, kF32Panels = 3, kF32GemvPanels = 4;
  static constexpr int kAttentionRows = 6, kAttentionPages = 4, kAttentionDims = 4;
  static constexpr int kAttentionPanelRows = 6, kSoftmaxPages = 4;
  static constexpr bool kCodeTiles = true;  // code_tiles_impl.h
  // Sapphire Rapids takes two cycles for a vdpbf16ps and one for two FMAs: 87 against 175 GFLOP/s.
  static constexpr bool kBf16Dot = false;
  /// Do full bytes and nibbles have one dot, and are there registers of 64 bytes?
  static constexpr bool kOneDot = false;
  /// Does this class differ from a lower one in products of bytes only?
  static constexpr bool kTilesUnpack = true;
  static constexpr bool kBytesOnly = false;

  OCTAVO_SIMD __mmask16 first_lanes(int n) {
    return static_cast<__mmask16>(n >= 16 ? 0xffffu : n <= 0 ? 0u : (1u << n) - 1);
  }

  OCTAVO_SIMD F zero() { return _mm512_setzero_ps(); }
  OCTAVO_SIMD F set1(float x) { return _mm512_set1_ps(x); }
  OCTAVO_SIMD F load(const float* p) { return _mm512_loadu_ps(p); }
  OCTAVO_SIMD void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  OCTAVO_SIMD F load_n(const float* p, int n) { return _mm512_maskz_loadu_ps(first_lanes(n), p); }
  OCTAVO_SIMD void store_n(float* p, F x, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), x); }
  OCTAVO_SIMD F add(F a, F b) { return _mm512_add_ps(a, b); }
  OCTAVO_SIMD F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  OCTAVO_SIMD F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  OCTAVO_SIMD F div(F a, F b) { return _mm512_div_ps(a, b); }
  /// 1 / x to 2^-23, without the divider: an approximation and one step of Newton's.
  OCTAVO_SIMD F reciprocal(F x) {
    const F r = _mm512_rcp14_ps(x);
    return mul(r, _mm512_fnmadd_ps(x, r, set1(2.0f)));
  }
  OCTAVO_SIMD F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  OCTAVO_SIMD F max(F a, F b) { return _mm512_max_ps(a, b); }
  OCTAVO_SIMD F clamp(F x, float limit) {
    return _mm512_range_ps(x, set1(limit), 0x2);  // the lesser magnitude, the first one's sign
  }
  OCTAVO_SIMD F min(F a, F b) { return _mm512_min_ps(a, b); }

  OCTAVO_SIMD I izero() { return _mm512_setzero_si512(); }
  OCTAVO_SIMD I iset1(int32_t x) { return _mm512_set1_epi32(x); }
  OCTAVO_SIMD I iload(const void* p) { return _mm512_loadu_si512(p); }
  OCTAVO_SIMD I iload_n(const void* p, int n) {
    return _mm512_maskz_loadu_epi32(first_lanes(n), p);
  }
  OCTAVO_SIMD void istore(void* p, I x) { _mm512_storeu_si512(p, x); }
  OCTAVO_SIMD I bcast4(const void* p) {
    int32_t x;
    __builtin_memcpy(&x, p, 4);
    return _mm512_set1_epi32(x);
  }
  OCTAVO_SIMD I iand(I a, I b) { return _mm512_and_si512(a, b); }
  OCTAVO_SIMD I ior(I a, I b) { return _mm512_or_si512(a, b); }
  OCTAVO_SIMD I iadd(I a, I b) { return _mm512_add_epi32(a, b); }
  OCTAVO_SIMD I isub(I a, I b) { return _mm512_sub_epi32(a, b); }
  OCTAVO_SIMD I imax(I a, I b) { return _mm512_max_epi32(a, b); }
  template <int N>
  OCTAVO_SIMD I srl(I a) {
    return _mm512_srli_epi32(a, N);
  }
  template <int N>
  OCTAVO_SIMD I sll(I a) {
    return _mm512_slli_epi32(a, N);
  }
  OCTAVO_SIMD I srl(I a, int n) { return _mm512_srli_epi32(a, static_cast<unsigned>(n)); }
  OCTAVO_SIMD I sll(I a, int n) { return _mm512_slli_epi32(a, static_cast<unsigned>(n)); }
  template <int N>
  OCTAVO_SIMD I sra(I a) {
    return _mm512_srai_epi32(a, N);
  }
  OCTAVO_SIMD I or_masked(I a, I b, I mask) {
    return _mm512_ternarylogic_epi32(a, b, mask, 0xf8);  // a | (b & mask)
  }
  OCTAVO_SIMD F to_f(I a) { return _mm512_cvtepi32_ps(a); }
  OCTAVO_SIMD F as_f(I a) { return _mm512_castsi512_ps(a); }
  OCTAVO_SIMD I as_i(F a) { return _mm512_castps_si512(a); }
  OCTAVO_SIMD I round_i(F a) { return _mm512_cvtps_epi32(a); }
  OCTAVO_SIMD F half_to_f(I h) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(h)); }
  OCTAVO_SIMD F load_f16(const void* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
  /// Even and odd bytes as 16-bit numbers: exact for all of 0..255 times -128..127.
  OCTAVO_SIMD I dpbusd(I acc, I w, I x) {
    const I even = _mm512_madd_epi16(_mm512_and_si512(w, _mm512_set1_epi16(255)),
                                     _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8));
    const I odd = _mm512_madd_epi16(_mm512_srli_epi16(w, 8), _mm512_srai_epi16(x, 8));
    return iadd(acc, iadd(even, odd));
  }
  /// For w up to 127: pairs of products fit into 16 bits.
  OCTAVO_SIMD I dpbusd_nibbles(I acc, I w, I x) {
    return iadd(acc, _mm512_madd_epi16(_mm512_maddubs_epi16(w, x), _mm512_set1_epi16(1)));
  }
  OCTAVO_SIMD I bf16_bits(F x) {
    const I bits = as_i(x);
    const I lowest = iand(srl<16>(bits), iset1(1));
    const I rounded = srl<16>(iadd(iadd(bits, iset1(0x7fff)), lowest));
    // A NaN whose payload lies in the dropped half must not turn into infinity.
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(rounded, is_nan, srl<16>(bits), iset1(0x40));
  }
  OCTAVO_SIMD F round_bf16(F x) { return as_f(sll<16>(bf16_bits(x))); }
  OCTAVO_SIMD I f16_bits(F x) {
    return _mm512_cvtepu16_epi32(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  OCTAVO_SIMD F round_f16(F x) {
    return _mm512_cvtph_ps(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  OCTAVO_SIMD F keep_lanes(F a, int begin, int end, float other) {
    const auto mask = static_cast<__mmask16>(first_lanes(end) & ~first_lanes(begin));
    return _mm512_mask_blend_ps(mask, _mm512_set1_ps(other), a);
  }
  template <int H>
  OCTAVO_SIMD F xor_lanes(F a) {
    if constexpr (H == 1) return _mm512_permute_ps(a, 0xb1);
    if constexpr (H == 2) return _mm512_permute_ps(a, 0x4e);
    if constexpr (H == 4) return _mm512_shuffle_f32x4(a, a, 0xb1);
    if constexpr (H == 8) return _mm512_shuffle_f32x4(a, a, 0x4e);
  }
  OCTAVO_SIMD F zero_below(F a, F x, float bound) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, set1(bound), _CMP_NLT_UQ), a);
  }
  OCTAVO_SIMD uint32_t mask_ge(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
  OCTAVO_SIMD float reduce_add(F a) {
    const __m256 low = _mm512_castps512_ps256(a);
    const __m256 high = _mm512_extractf32x8_ps(a, 1);
    const __m256 eight = _mm256_add_ps(low, high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  OCTAVO_SIMD float reduce_max(F a) { return _mm512_reduce_max_ps(a); }
  /// op of each of four vectors' lanes, side by side: halves of neighbours, then quarters.
  template <class Op>
  OCTAVO_SIMD void store_reduced4(void* p, I a, I b, I c, I d, Op op) {
    const I ab = op(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    const I cd = op(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    const I all = op(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    const I half = op(all, _mm512_shuffle_i64x2(all, all, 0x4e));
    const I quarter = op(half, _mm512_shuffle_i64x2(half, half, 0xb1));
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_castsi512_si128(quarter));
  }
  OCTAVO_SIMD void store_max4(void* p, I a, I b, I c, I d) {
    store_reduced4(p, a, b, c, d, [](I x, I y) { return imax(x, y); });
  }
  OCTAVO_SIMD void store_add4(void* p, I a, I b, I c, I d) {
    store_reduced4(p, a, b, c, d, [](I x, I y) { return iadd(x, y); });
  }
  OCTAVO_SIMD void store_bytes2(void* p, void* r, I a, I b, I c, I d) {
    // Packing works in quarters of a register: of every vector four bytes in each.
    const I mixed = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
    const I order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const I bytes = _mm512_permutexvar_epi32(order, mixed);
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_castsi512_si256(bytes));
    _mm256_storeu_si256(static_cast<__m256i*>(r), _mm512_extracti64x4_epi64(bytes, 1));
  }
  OCTAVO_SIMD void store_low_bytes(void* p, I a) {
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a));
  }
  OCTAVO_SIMD void store_low_halves(void* p, I a) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16(a));
  }
  template <class Form>
  OCTAVO_SIMD void widen_bytes(void* to, const void* from) {
    // The sign fills the upper byte; exponent and mantissa move to their place.
    const __m512i x = _mm512_cvtepi8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
    const __m512i moved = _mm512_and_si512(_mm512_slli_epi16(x, Form::kMove),
                                           _mm512_set1_epi16(static_cast<int16_t>(Form::kKeep)));
    const __m512i normal = _mm512_add_epi16(moved, _mm512_set1_epi16(Form::kRebias));
    // Codes at both ends of the range (subnormals, infinity, NaN) differ in their low five bits.
    const __m512i ends = _mm512_and_si512(_mm512_add_epi16(x, _mm512_set1_epi16(Form::kNumHigh)),
                                          _mm512_set1_epi16(0x7f));
    const __mmask32 at_end =
        _mm512_cmplt_epu16_mask(ends, _mm512_set1_epi16(Form::kNumLow + Form::kNumHigh));
    const __m512i looked_up = _mm512_permutexvar_epi16(x, _mm512_loadu_si512(kFp8Table<Form>.ends));
    const __m512i sign = _mm512_and_si512(x, _mm512_set1_epi16(INT16_MIN));
    istore(to, _mm512_mask_blend_epi16(at_end, normal, _mm512_or_si512(looked_up, sign)));
  }
  template <class Form>
  OCTAVO_SIMD void split_codes(void* even, void* odd, const void* from) {
    const __m512i x = _mm512_loadu_si512(from);
    const __m512i low = _mm512_slli_epi16(x, 8);
    if constexpr (Form::kMantissaBits == 3) {
      const __m512i keep_low = _mm512_set1_epi16(static_cast<int16_t>(0xbfff));
      const __m512i keep_high = _mm512_set1_epi16(static_cast<int16_t>(0xbf80));
      istore(even, iand(_mm512_srai_epi16(low, 1), keep_low));
      istore(odd, iand(_mm512_srai_epi16(x, 1), keep_high));
    } else {
      istore(even, low);
      istore(odd, iand(x, _mm512_set1_epi16(static_cast<int16_t>(0xff00))));
    }
  }
  /// The largest codes so far, without their signs.
  OCTAVO_SIMD I max_codes(I most, I codes) {
    return _mm512_max_epu8(most, iand(codes, _mm512_set1_epi8(0x7f)));
  }
  template <class Form>
  OCTAVO_SIMD bool is_code_above(I most) {
    return _mm512_cmpgt_epu8_mask(most, _mm512_set1_epi8(Form::kLargestCode)) != 0;
  }
  template <class Form>
  OCTAVO_SIMD bool any_code_above(const std::byte* p, int count) {
    __m512i most = izero();
    for (int i = 0; i < count; i += 64) {
      const int left = count - i;
      const __mmask64 lanes = left >= 64 ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
      most = max_codes(most, _mm512_maskz_loadu_epi8(lanes, p + i));
    }
    return is_code_above<Form>(most);
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
