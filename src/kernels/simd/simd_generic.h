#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/simd/fp8_forms.h"

// Sixteen lanes in portable C++, on the compiler's vector types. One of three classes `Simd` with
// the same members; the kernels are templates over them. Everything is in an anonymous namespace
// and nothing comes from the library, so that no object file shares code with one built for another
// ISA.

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"  // 64-byte vectors never cross a call that is not inlined
#endif

namespace octavo::kernels {
namespace {

struct SimdGeneric {
  typedef float F __attribute__((vector_size(64)));
  typedef int32_t I __attribute__((vector_size(64)));
  typedef uint32_t U __attribute__((vector_size(64)));
#define OCTAVO_SIMD static inline __attribute__((always_inline))
  // Rows and panels of a tile whose sums are kept at once; the portable build has few registers.
  static constexpr int kInt8Rows = 2, kInt8Panels = 1, kInt8GemvPanels = 1;
  static constexpr int kInt8TallRows = 2;
  static constexpr int kF32Rows = 2, kF32Panels = 1, kF32GemvPanels = 1;
  static constexpr int kAttentionRows = 2, kAttentionPages = 1, kAttentionDims = 1;
  static constexpr int kAttentionPanelRows = 2, kSoftmaxPages = 1;
  static constexpr bool kCodeTiles = false;
  static constexpr bool kBf16Dot = false;  // is there an instruction for pairs of bf16?
  /// Are there registers for tiles that unpack blocks as they go?
  static constexpr bool kTilesUnpack = false;
  /// Do full bytes and nibbles have one dot, and are there registers of 64 bytes?
  static constexpr bool kOneDot = false;
  /// Does this class differ from a lower one in products of bytes only?
  static constexpr bool kBytesOnly = false;

  OCTAVO_SIMD F zero() { return F{}; }
  OCTAVO_SIMD F set1(float x) { return F{} + x; }
  OCTAVO_SIMD F load(const float* p) {
    F x;
    __builtin_memcpy(&x, p, 64);
    return x;
  }
  OCTAVO_SIMD void store(float* p, F x) { __builtin_memcpy(p, &x, 64); }
  OCTAVO_SIMD F load_n(const float* p, int n) {
    F x{};
    __builtin_memcpy(&x, p, static_cast<size_t>(n) * 4);
    return x;
  }
  OCTAVO_SIMD void store_n(float* p, F x, int n) {
    __builtin_memcpy(p, &x, static_cast<size_t>(n) * 4);
  }
  OCTAVO_SIMD F add(F a, F b) { return a + b; }
  OCTAVO_SIMD F sub(F a, F b) { return a - b; }
  OCTAVO_SIMD F mul(F a, F b) { return a * b; }
  OCTAVO_SIMD F div(F a, F b) { return a / b; }
  /// x between -limit and limit; anything there for NaN.
  OCTAVO_SIMD F clamp(F x, float limit) { return max(set1(-limit), min(set1(limit), x)); }
  /// 1 / x, to about 2 ulp.
  OCTAVO_SIMD F reciprocal(F x) { return 1.0f / x; }
  OCTAVO_SIMD F fma(F a, F b, F c) { return a * b + c; }
  OCTAVO_SIMD F select(I mask, F a, F b) {
    return reinterpret_cast<F>((mask & reinterpret_cast<I>(a)) | (~mask & reinterpret_cast<I>(b)));
  }
  /// x86's rule in all classes: b where either is a NaN.
  OCTAVO_SIMD F max(F a, F b) { return select(a > b, a, b); }
  OCTAVO_SIMD F min(F a, F b) { return select(a < b, a, b); }

  OCTAVO_SIMD I izero() { return I{}; }
  OCTAVO_SIMD I iset1(int32_t x) { return I{} + x; }
  OCTAVO_SIMD I iload(const void* p) {
    I x;
    __builtin_memcpy(&x, p, 64);
    return x;
  }
  OCTAVO_SIMD I iload_n(const void* p, int n) {
    I x{};
    __builtin_memcpy(&x, p, static_cast<size_t>(n) * 4);
    return x;
  }
  OCTAVO_SIMD void istore(void* p, I x) { __builtin_memcpy(p, &x, 64); }
  OCTAVO_SIMD I bcast4(const void* p) {
    int32_t x;
    __builtin_memcpy(&x, p, 4);
    return iset1(x);
  }
  OCTAVO_SIMD I iand(I a, I b) { return a & b; }
  OCTAVO_SIMD I ior(I a, I b) { return a | b; }
  OCTAVO_SIMD I iadd(I a, I b) { return a + b; }
  OCTAVO_SIMD I isub(I a, I b) { return a - b; }
  OCTAVO_SIMD I imax(I a, I b) {
    const I mask = a > b;
    return (mask & a) | (~mask & b);
  }
  template <int N>
  OCTAVO_SIMD I srl(I a) {
    return reinterpret_cast<I>(reinterpret_cast<U>(a) >> N);
  }
  template <int N>
  OCTAVO_SIMD I sll(I a) {
    return a << N;
  }
  /// By what is a constant only after loops are unrolled, or never.
  OCTAVO_SIMD I srl(I a, int n) { return reinterpret_cast<I>(reinterpret_cast<U>(a) >> n); }
  OCTAVO_SIMD I sll(I a, int n) { return a << n; }
  template <int N>
  OCTAVO_SIMD I sra(I a) {
    return a >> N;
  }
  /// a | (b & mask)
  OCTAVO_SIMD I or_masked(I a, I b, I mask) { return a | (b & mask); }
  OCTAVO_SIMD F to_f(I a) { return __builtin_convertvector(a, F); }
  OCTAVO_SIMD F as_f(I a) { return reinterpret_cast<F>(a); }
  OCTAVO_SIMD I as_i(F a) { return reinterpret_cast<I>(a); }
  /// Nearest integer, ties to even; INT32_MIN where it does not fit.
  OCTAVO_SIMD I round_i(F a) {
    // Adding 1.5 * 2^23 leaves the rounded integer in the low mantissa bits.
    const F limit = set1(4194304.0f);
    const I inside = (a < limit) & (a > -limit);
    const F magic = set1(12582912.0f);
    const I rounded = reinterpret_cast<I>(a + magic) - reinterpret_cast<I>(magic);
    return (inside & rounded) | (~inside & iset1(INT32_MIN));
  }
  /// The 16 IEEE halves in the low 16 bits of each lane, widened.
  OCTAVO_SIMD F half_to_f(I h) {
    const I sign = (h & 0x8000) << 16;
    const I magnitude = (h & 0x7fff) << 13;
    const I exponent = magnitude & iset1(0x7c00 << 13);
    const I inf_nan = exponent == iset1(0x7c00 << 13);
    const I tiny = exponent == izero();
    const I normal = magnitude + iset1((127 - 15) << 23);
    const I special = normal + iset1((128 - 16) << 23);
    // Subnormals: give them an exponent of their own and subtract it.
    const F scaled = as_f(magnitude + iset1((127 - 14) << 23)) - as_f(iset1((127 - 14) << 23));
    const I finite = (tiny & as_i(scaled)) | (~tiny & normal);
    return as_f(sign | (inf_nan & special) | (~inf_nan & finite));
  }
  OCTAVO_SIMD F load_f16(const void* p) {
    uint16_t h[16];
    __builtin_memcpy(h, p, 32);
    I x;
    for (int i = 0; i < 16; ++i) x[i] = h[i];
    return half_to_f(x);
  }
  /// acc + the dot product of each lane's four u8 of `w` and four s8 of `x`.
  OCTAVO_SIMD I dpbusd(I acc, I w, I x) {
    const I mask = iset1(255);
    acc += (w & mask) * ((x << 24) >> 24);
    acc += (srl<8>(w) & mask) * ((x << 16) >> 24);
    acc += (srl<16>(w) & mask) * ((x << 8) >> 24);
    return acc + srl<24>(w) * (x >> 24);
  }
  /// The same for w up to 127.
  OCTAVO_SIMD I dpbusd_nibbles(I acc, I w, I x) { return dpbusd(acc, w, x); }
  /// bf16 bits of each lane in its low half, ties to even, NaN stays NaN.
  OCTAVO_SIMD I bf16_bits(F x) {
    const I bits = as_i(x);
    const I lowest = srl<16>(bits) & iset1(1);
    const I rounded = srl<16>(bits + iset1(0x7fff) + lowest);
    // A NaN whose payload lies in the dropped half must not turn into infinity.
    const I nan = srl<16>(bits) | iset1(0x40);
    const I is_number = x == x;
    return (is_number & rounded) | (~is_number & nan);
  }
  OCTAVO_SIMD F round_bf16(F x) { return as_f(sll<16>(bf16_bits(x))); }
  /// Rounded to an IEEE half, ties to even, and widened again.
  OCTAVO_SIMD F round_f16(F x) {
    const I sign = as_i(x) & iset1(INT32_MIN);
    const F magnitude = as_f(as_i(x) & iset1(0x7fffffff));
    const F a = min(magnitude, set1(131072.0f));
    // Adding 2^13 times x's own power of two and taking it away again rounds to 10 mantissa bits;
    // from 2^-14 down the spacing stays that of the subnormals.
    const I exponent = imax(as_i(a) & iset1(0x7f800000), iset1((127 - 14) << 23));
    const F magic = as_f(exponent + iset1(13 << 23));
    F rounded = (a + magic) - magic;
    rounded = select(rounded > set1(65504.0f), set1(__builtin_inff()), rounded);
    rounded = select(x == x, rounded, magnitude);
    return as_f(as_i(rounded) | sign);
  }
  /// The bits of an IEEE half in each lane's low half, ties to even.
  OCTAVO_SIMD I f16_bits(F x) {
    const I bits = as_i(round_f16(x));
    const I magnitude = bits & iset1(0x7fffffff);
    const I sign = srl<16>(bits) & iset1(0x8000);
    const I normal = srl<13>(magnitude) - iset1(112 << 10);
    const I tiny = round_i(as_f(magnitude) * set1(0x1p24f));  // subnormals: exact
    const I is_tiny = magnitude < iset1(0x38800000);
    const I is_special = magnitude >= iset1(0x7f800000);
    const I is_nan = magnitude > iset1(0x7f800000);
    const I special = iset1(0x7c00) | (is_nan & iset1(0x200));
    const I finite = (is_tiny & tiny) | (~is_tiny & normal);
    return sign | (is_special & special) | (~is_special & finite);
  }
  /// Lanes [begin, end) of a; `other` elsewhere.
  OCTAVO_SIMD F keep_lanes(F a, int begin, int end, float other) {
    const I lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return select((lane >= iset1(begin)) & (lane < iset1(end)), a, set1(other));
  }
  /// Lane i becomes lane i ^ H; H is 1, 2, 4 or 8.
  template <int H>
  OCTAVO_SIMD F xor_lanes(F a) {
    F x;
    for (int i = 0; i < 16; ++i) x[i] = a[i ^ H];
    return x;
  }
  /// a, but zero where x < bound.
  OCTAVO_SIMD F zero_below(F a, F x, float bound) {
    const I below = x < set1(bound);
    return reinterpret_cast<F>(~below & reinterpret_cast<I>(a));
  }
  /// Bit i: is lane i of a >= that of b? False for NaN.
  OCTAVO_SIMD uint32_t mask_ge(F a, F b) {
    uint32_t mask = 0;
    for (int i = 0; i < 16; ++i) mask |= (a[i] >= b[i] ? 1u : 0u) << i;
    return mask;
  }
  /// The same tree in all classes: halves added, then quarters, ...
  OCTAVO_SIMD float reduce_add(F a) {
    float x[16];
    __builtin_memcpy(x, &a, 64);
    for (int n = 8; n > 0; n /= 2) {
      for (int i = 0; i < n; ++i) x[i] += x[i + n];
    }
    return x[0];
  }
  OCTAVO_SIMD float reduce_max(F a) {
    float x = a[0];
    for (int i = 1; i < 16; ++i) x = a[i] > x ? a[i] : x;
    return x;
  }
  /// Four ints: the largest lane, or the sum of the lanes, of each vector.
  OCTAVO_SIMD void store_max4(void* p, I a, I b, I c, I d) {
    int32_t most[4] = {a[0], b[0], c[0], d[0]};
    for (int i = 1; i < 16; ++i) {
      const int32_t lanes[4] = {a[i], b[i], c[i], d[i]};
      for (int j = 0; j < 4; ++j) most[j] = lanes[j] > most[j] ? lanes[j] : most[j];
    }
    __builtin_memcpy(p, most, sizeof most);
  }
  OCTAVO_SIMD void store_add4(void* p, I a, I b, I c, I d) {
    uint32_t sum[4] = {};
    for (int i = 0; i < 16; ++i) {
      const int32_t lanes[4] = {a[i], b[i], c[i], d[i]};
      for (int j = 0; j < 4; ++j) sum[j] += static_cast<uint32_t>(lanes[j]);
    }
    __builtin_memcpy(p, sum, sizeof sum);
  }
  /// The lanes of a and b as 32 signed bytes to p, those of c and d to r. Lanes that do not fit:
  /// undefined.
  OCTAVO_SIMD void store_bytes2(void* p, void* r, I a, I b, I c, I d) {
    auto* const first = static_cast<int8_t*>(p);
    auto* const second = static_cast<int8_t*>(r);
    for (int i = 0; i < 16; ++i) {
      first[i] = static_cast<int8_t>(a[i]);
      first[16 + i] = static_cast<int8_t>(b[i]);
      second[i] = static_cast<int8_t>(c[i]);
      second[16 + i] = static_cast<int8_t>(d[i]);
    }
  }
  /// The low byte of each lane, 16 bytes.
  OCTAVO_SIMD void store_low_bytes(void* p, I a) {
    auto* out = static_cast<int8_t*>(p);
    for (int i = 0; i < 16; ++i) out[i] = static_cast<int8_t>(a[i]);
  }
  /// The low half of each lane, 32 bytes.
  OCTAVO_SIMD void store_low_halves(void* p, I a) {
    for (int i = 0; i < 16; ++i) {
      const auto x = static_cast<int16_t>(a[i]);
      __builtin_memcpy(static_cast<char*>(p) + 2 * i, &x, 2);
    }
  }
  /// 32 codes of a one-byte format (fp8_forms.h) as bf16, in order.
  template <class Form>
  OCTAVO_SIMD void widen_bytes(void* to, const void* from) {
    for (int i = 0; i < 32; ++i) {
      const auto code = static_cast<const uint8_t*>(from)[i];
      __builtin_memcpy(static_cast<char*>(to) + 2 * i, &kFp8Table<Form>.widened[code], 2);
    }
  }
  /// 32 pairs of codes at `from` as halves, divided by Form::kHalfFactor: the even codes', the odd
  /// ones'. e4m3's NaN becomes some number.
  template <class Form>
  OCTAVO_SIMD void split_codes(void* even, void* odd, const void* from) {
    constexpr int kMove = 7 + 3 - Form::kMantissaBits;  // of the magnitude
    for (int i = 0; i < 64; ++i) {
      const int code = static_cast<const uint8_t*>(from)[i];
      const auto half = static_cast<uint16_t>((code & 0x80) << 8 | (code & 0x7f) << kMove);
      __builtin_memcpy(static_cast<char*>(i % 2 == 0 ? even : odd) + i / 2 * 2, &half, 2);
    }
  }
  /// Is the magnitude of any of the codes at `p` above the largest finite one's?
  template <class Form>
  OCTAVO_SIMD bool any_code_above(const std::byte* p, int count) {
    bool any = false;
    for (int i = 0; i < count; ++i) any |= (static_cast<int>(p[i]) & 0x7f) > Form::kLargestCode;
    return any;
  }
  OCTAVO_SIMD void prefetch(const void* p) { __builtin_prefetch(p); }
  OCTAVO_SIMD void prefetch_l2(const void* p) { __builtin_prefetch(p, 0, 2); }
};

}  // namespace
}  // namespace octavo::kernels
