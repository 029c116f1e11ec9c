#pragma once

#include "kernels/linear/block_impl.h"
#include "kernels/linear/f32_impl.h"
#include "kernels/simd/fp8_forms.h"

// f32 arithmetic with the formats that take more than an instruction or two to widen: always into
// scratch, then as F32 (f32_impl.h).

namespace octavo::kernels {
namespace {

/// The formats of block_formats.h, by way of the bytes that the integer products use: d * scale * q
/// is exact, the minimum is added with one rounding, as in GGUF's own dequantisation.
template <class Q>
struct WidenBlocks {
  static constexpr int64_t kWidenCols =
      Q::kBlocks * kQuantBlock > kernels::kWidenCols ? kSuperBlock : kernels::kWidenCols;
  template <class S, class Use>
  static __attribute__((always_inline)) inline void widen(const LinearCall& call,
                                                          const std::byte* p, int64_t num_cols,
                                                          Use use) {
    using F = typename S::F;
    using I = typename S::I;
    UnpackedBlock blocks[kWidenCols / kQuantBlock];
    unpack_blocks<S, Q>(blocks, p, call, num_cols / kQuantBlock);
    const I mask = S::iset1(255);
    const F zero_point = S::set1(static_cast<float>(Q::kZeroPoint));
    for (int64_t g = 0; g < num_cols / kQuantBlock; ++g) {
      const F a = S::load(blocks[g].a);
      const F b = S::load(blocks[g].b);
      for (int l = 0; l < 8; ++l) {
        const I w = S::iload(blocks[g].weights[l]);
        const F scale = Q::kScales == BlockScales::kHalves && l >= 4 ? b : a;
        for_each_constant<4>([&](auto j) __attribute__((always_inline)) {
          const F q = S::to_f(S::iand(S::srl(w, 8 * j.value), mask));
          const int64_t k = kQuantBlock * g + 4 * l + j.value;
          if constexpr (Q::kScales == BlockScales::kMin) {
            use(k, S::add(S::mul(q, scale), b));
          } else {
            use(k, S::mul(S::sub(q, zero_point), scale));
          }
        });
      }
    }
  }
};

/// Groups of e4m3 codes with one scale: every code widens exactly, d * q is rounded once.
struct WidenF8 {
  static constexpr int64_t kWidenCols = kernels::kWidenCols;
  template <class S, class Use>
  static __attribute__((always_inline)) inline void widen(const LinearCall& call,
                                                          const std::byte* p, int64_t num_cols,
                                                          Use use) {
    using F = typename S::F;
    using I = typename S::I;
    const int64_t group = call.group_blocks * kQuantBlock;
    const I upper = S::iset1(static_cast<int32_t>(0xffff0000u));
    for (int64_t begin = 0; begin < num_cols; begin += group) {
      const F d = S::load(reinterpret_cast<const float*>(p));
      p += 64;
      for (int64_t k = begin; k < begin + group; k += 2, p += 32) {
        alignas(64) std::byte pairs[64];
        S::template widen_bytes<E4M3>(pairs, p);
        const I pair = S::iload(pairs);
        use(k, S::mul(d, S::as_f(S::template sll<16>(pair))));
        use(k + 1, S::mul(d, S::as_f(S::iand(pair, upper))));
      }
    }
  }
};

template <class S, class W>
void widen_panel(float* out, const LinearCall& call, const std::byte* p, int64_t num_cols) {
  W::template widen<S>(
      call, p, num_cols, [&](int64_t k, typename S::F w) __attribute__((always_inline)) {
        S::store(out + k * kPanelRows, w);
      });
}

template <class S, class W>
void run_widening(const LinearCall& call, const LinearRange& range) {
  constexpr int64_t kPanels = S::kF32Panels;
  F32Source source{};
  source.widen = widen_panel<S, W>;
  source.width = W::kWidenCols > kernels::kWidenCols && kPanels > 2 ? 2 : kPanels;
  source.block_cols = W::kWidenCols;
  source.block_bytes = W::kWidenCols / kQuantBlock *
                       (call.panel_bytes / static_cast<size_t>(call.num_cols / kQuantBlock));
  run_f32<F32Tiles<S, WeightF32>>(call, range, source);
}

}  // namespace
}  // namespace octavo::kernels
