#pragma once

#include <utility>

#include "kernels/linear/linear_params.h"
#include "kernels/simd/math.h"

// The formats of quantised blocks, as traits for the tiles of block_impl.h. Layouts are in
// linear_params.h; source of GGUF's: ggml-common.h and the dequantisation of ggml-quants.c.
//
// A trait describes a super-block of kBlocks blocks of 32 columns by 16 rows:
//   Header       what is read of a super-block once
//   weights<S>   block g, columns 4l..4l+3 of 16 rows, unsigned bytes: below 64, or any where
//                kFullBytes says so
//   scales<S>    the two vectors of f32 that block g is multiplied with; their meaning is kScales
// g and l are plain numbers, which inlining and unrolling make constants: as template arguments
// they would be bodies of their own to the compiler, half of its time. Where kBlocks is
// kBlocksOfCall, the call's group_blocks says how many blocks of kBlock bytes follow kHead bytes,
// and all are read alike: the pointer that scales and weights get is kBlock further on at each.

namespace octavo::kernels {
namespace {

enum class BlockScales {
  kOne,     // value = a * (w - kZeroPoint)
  kMin,     // value = a * w + b
  kHalves,  // value = a * (w - kZeroPoint) in the first 16 columns, b * ... in the others
};

inline constexpr int kBlocksOfCall = 0;

/// From how many rows on panels are unpacked before they are multiplied.
enum class Unpacking {
  kToAlign,      // bytes as they are, but half of them at addresses that are odd for a register
  kManyRows,     // kUnpackRows: nibbles cost two instructions
  kBeyondATile,  // more rows than a tile has; where S::kTilesUnpack is false, always
};

template <int N>
struct Constant {
  static constexpr int value = N;
};
/// use(Constant<0>), use(Constant<1>), ... (Side by side: where each is inlined into the one
/// before, the compiler works through the last one as often as there are any.)
template <int... I, class Use>
__attribute__((always_inline)) inline void for_constants(std::integer_sequence<int, I...>,
                                                         const Use& use) {
  (use(Constant<I>{}), ...);
}
template <int Count, class Use>
__attribute__((always_inline)) inline void for_each_constant(const Use& use) {
  for_constants(std::make_integer_sequence<int, Count>{}, use);
}

/// Shifts left by `count`, or right by -count.
template <class S>
__attribute__((always_inline)) inline typename S::I shift(typename S::I x, int count) {
  return count > 0 ? S::sll(x, count) : S::srl(x, -count);
}

/// Byte `i` of each lane as a float.
template <class S>
__attribute__((always_inline)) inline typename S::F unsigned_byte(typename S::I x, int i) {
  return S::to_f(S::iand(S::srl(x, 8 * i), S::iset1(255)));
}
template <class S>
__attribute__((always_inline)) inline typename S::F signed_byte(typename S::I x, int i) {
  return S::to_f(S::template sra<24>(S::sll(x, 24 - 8 * i)));
}

/// The low (`upper` 0) or high (1) nibbles of the bytes at `p`.
template <class S>
__attribute__((always_inline)) inline typename S::I nibbles_at(const std::byte* p, int upper) {
  return S::iand(S::srl(S::iload(p), 4 * upper), S::iset1(0x0f0f0f0f));
}
/// Words of 4-bit weights: [4][16][4] bytes, elements 4l.. low and 16 + 4l.. high nibbles.
template <class S>
__attribute__((always_inline)) inline typename S::I nibbles_of(const std::byte* words, int l) {
  return nibbles_at<S>(words + 64 * (l % 4), l / 4);
}

struct NoHeader {};
/// Of formats whose blocks share nothing.
struct WithoutHeader {
  template <class S>
  using Header = NoHeader;
  template <class S>
  static __attribute__((always_inline)) inline NoHeader header(const std::byte*) {
    return {};
  }
};

/// Q4_0 and Q4_1.
template <bool kMin>
struct Q4 : WithoutHeader {
  static constexpr int kBlocks = 1;
  static constexpr size_t kHead = kMin ? 64 : 32;
  static constexpr size_t kBytes = kHead + 256;
  static constexpr BlockScales kScales = kMin ? BlockScales::kMin : BlockScales::kOne;
  static constexpr Unpacking kUnpacking = Unpacking::kManyRows;
  static constexpr bool kFullBytes = false;
  static constexpr int kZeroPoint = kMin ? 0 : 8;

  template <class S>
  static __attribute__((always_inline)) inline void scales(const std::byte* p, NoHeader, int,
                                                           typename S::F& a, typename S::F& b) {
    a = S::load_f16(p);
    if constexpr (kMin) b = S::load_f16(p + 32);
  }
  template <class S>
  static __attribute__((always_inline)) inline typename S::I weights(const std::byte* p, NoHeader,
                                                                     int, int l) {
    return nibbles_of<S>(p + kHead, l);
  }
};
using Q4_0 = Q4<false>;
using Q4_1 = Q4<true>;

struct Q8_0 : WithoutHeader {
  static constexpr int kBlocks = 1;
  static constexpr size_t kBytes = 32 + 512;
  static constexpr BlockScales kScales = BlockScales::kOne;
  static constexpr Unpacking kUnpacking = Unpacking::kToAlign;
  static constexpr bool kFullBytes = true;
  static constexpr int kZeroPoint = 128;

  template <class S>
  static __attribute__((always_inline)) inline void scales(const std::byte* p, NoHeader, int,
                                                           typename S::F& a, typename S::F&) {
    a = S::load_f16(p);
  }
  template <class S>
  static __attribute__((always_inline)) inline typename S::I weights(const std::byte* p, NoHeader,
                                                                     int, int l) {
    return S::iload(p + 32 + 64 * l);
  }
};

/// Q5_0 and Q5_1: nibbles as Q4_0's; bit g of byte j of a row's word is the fifth bit of element
/// 4g + j.
template <bool kMin>
struct Q5 {
  static constexpr int kBlocks = 1;
  static constexpr size_t kBytes = (kMin ? 64 : 32) + 64 + 256;
  static constexpr BlockScales kScales = kMin ? BlockScales::kMin : BlockScales::kOne;
  static constexpr Unpacking kUnpacking = Unpacking::kBeyondATile;
  static constexpr bool kFullBytes = false;
  static constexpr int kZeroPoint = kMin ? 0 : 16;

  template <class S>
  struct Header {
    typename S::I fifth;
  };
  template <class S>
  static __attribute__((always_inline)) inline Header<S> header(const std::byte* p) {
    return {S::iload(p + (kMin ? 64 : 32))};
  }
  template <class S>
  static __attribute__((always_inline)) inline void scales(const std::byte* p, const Header<S>&,
                                                           int, typename S::F& a,
                                                           typename S::F& b) {
    a = S::load_f16(p);
    if constexpr (kMin) b = S::load_f16(p + 32);
  }
  template <class S>
  static __attribute__((always_inline)) inline typename S::I weights(const std::byte* p,
                                                                     const Header<S>& h, int,
                                                                     int l) {
    return S::or_masked(nibbles_of<S>(p + (kMin ? 128 : 96), l), shift<S>(h.fifth, 4 - l),
                        S::iset1(0x10101010));
  }
};
using Q5_0 = Q5<false>;
using Q5_1 = Q5<true>;

/// Q4_K and Q5_K: eight blocks with six-bit scales and minima; blocks 2c and 2c + 1 share bytes.
template <bool kFifth>
struct Q45K {
  static constexpr int kBlocks = 8;
  static constexpr size_t kBytes = 64 + 192 + (kFifth ? 512 : 0) + 2048;
  static constexpr BlockScales kScales = BlockScales::kMin;
  static constexpr Unpacking kUnpacking = Unpacking::kBeyondATile;
  static constexpr bool kFullBytes = false;
  static constexpr int kZeroPoint = 0;

  template <class S>
  struct Header {
    typename S::F d, minus_dmin;
    typename S::I scale[2], min[2];  // of blocks 0..3 and 4..7, a byte each
  };
  template <class S>
  static __attribute__((always_inline)) inline Header<S> header(const std::byte* p) {
    using I = typename S::I;
    const I w0 = S::iload(p + 64);
    const I w1 = S::iload(p + 128);
    const I w2 = S::iload(p + 192);
    const I six = S::iset1(0x3f3f3f3f);
    const I four = S::iset1(0x0f0f0f0f);
    const I top = S::iset1(0x30303030);
    Header<S> h;
    h.d = S::load_f16(p);
    h.minus_dmin = S::sub(S::zero(), S::load_f16(p + 32));
    h.scale[0] = S::iand(w0, six);
    h.min[0] = S::iand(w1, six);
    h.scale[1] = S::or_masked(S::iand(w2, four), S::template srl<2>(w0), top);
    h.min[1] = S::or_masked(S::iand(S::template srl<4>(w2), four), S::template srl<2>(w1), top);
    return h;
  }
  template <class S>
  static __attribute__((always_inline)) inline void scales(const std::byte*, const Header<S>& h,
                                                           int g, typename S::F& a,
                                                           typename S::F& b) {
    a = S::mul(h.d, unsigned_byte<S>(h.scale[g / 4], g % 4));
    b = S::mul(h.minus_dmin, unsigned_byte<S>(h.min[g / 4], g % 4));
  }
  template <class S>
  static __attribute__((always_inline)) inline typename S::I weights(const std::byte* p,
                                                                     const Header<S>&, int g,
                                                                     int l) {
    constexpr size_t kNibbles = 256 + (kFifth ? 512 : 0);
    const typename S::I nibbles = nibbles_at<S>(p + kNibbles + 512 * (g / 2) + 64 * l, g % 2);
    if constexpr (!kFifth) return nibbles;
    const typename S::I fifth = S::iload(p + 256 + 64 * l);
    return S::or_masked(nibbles, shift<S>(fifth, 4 - g), S::iset1(0x10101010));
  }
};
using Q4_K = Q45K<false>;
using Q5_K = Q45K<true>;

/// Sixteen signed scales of 16 columns. Of each half of 128 columns, block b has the nibbles of
/// bytes 32 (b & 1).. (low ones in blocks 0 and 1) and bits 2b, 2b + 1 of the 32 upper bytes.
struct Q6_K {
  static constexpr int kBlocks = 8;
  static constexpr size_t kBytes = 32 + 256 + 2048 + 1024;
  static constexpr BlockScales kScales = BlockScales::kHalves;
  static constexpr Unpacking kUnpacking = Unpacking::kBeyondATile;
  static constexpr bool kFullBytes = false;
  static constexpr int kZeroPoint = 32;

  template <class S>
  struct Header {
    typename S::F d;
  };
  template <class S>
  static __attribute__((always_inline)) inline Header<S> header(const std::byte* p) {
    return {S::load_f16(p)};
  }
  template <class S>
  static __attribute__((always_inline)) inline void scales(const std::byte* p, const Header<S>& h,
                                                           int g, typename S::F& a,
                                                           typename S::F& b) {
    const typename S::I four = S::iload(p + 32 + 64 * (g / 2));
    a = S::mul(h.d, signed_byte<S>(four, 2 * (g % 2)));
    b = S::mul(h.d, signed_byte<S>(four, 2 * (g % 2) + 1));
  }
  template <class S>
  static __attribute__((always_inline)) inline typename S::I weights(const std::byte* p,
                                                                     const Header<S>&, int g,
                                                                     int l) {
    const typename S::I upper = S::iload(p + 288 + 2048 + 512 * (g / 4) + 64 * l);
    const typename S::I nibbles =
        nibbles_at<S>(p + 288 + 1024 * (g / 4) + 512 * (g % 2) + 64 * l, g % 4 / 2);
    return S::or_masked(nibbles, shift<S>(upper, 4 - 2 * (g % 4)), S::iset1(0x30303030));
  }
};

/// Groups of columns with an integer zero point: d * (q - z), q of 4 or 8 bits.
template <bool kEight>
struct Affine {
  static constexpr int kBlocks = kBlocksOfCall;
  static constexpr size_t kHead = 64 + 32;
  static constexpr size_t kBlock = kEight ? 512 : 256;
  static constexpr BlockScales kScales = BlockScales::kMin;
  static constexpr Unpacking kUnpacking = kEight ? Unpacking::kToAlign : Unpacking::kManyRows;
  static constexpr bool kFullBytes = kEight;
  static constexpr int kZeroPoint = 0;

  template <class S>
  struct Header {
    typename S::F d, offset;
  };
  /// d * z has at most 11 + 8 bits where d came from a half, so it and d * q - d * z are exact.
  template <class S>
  static __attribute__((always_inline)) inline Header<S> header(const std::byte* p) {
    const typename S::F d = S::load(reinterpret_cast<const float*>(p));
    return {d, S::sub(S::zero(), S::mul(d, S::load_f16(p + 64)))};
  }
  template <class S>
  static __attribute__((always_inline)) inline void scales(const std::byte*, const Header<S>& h,
                                                           int, typename S::F& a,
                                                           typename S::F& b) {
    a = h.d;
    b = h.offset;
  }
  template <class S>
  static __attribute__((always_inline)) inline typename S::I weights(const std::byte* p,
                                                                     const Header<S>&, int, int l) {
    const std::byte* const block = p + kHead;
    if constexpr (kEight) return S::iload(block + 64 * l);
    return nibbles_of<S>(block, l);
  }
};

}  // namespace
}  // namespace octavo::kernels
