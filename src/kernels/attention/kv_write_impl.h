#pragma once

#include "kernels/attention/attention_impl.h"

namespace octavo::kernels {
namespace {

/// The 16 bits of each lane as the cache holds them.
template <class S, class T>
__attribute__((always_inline)) inline typename S::I half_bits(typename S::F x) {
  return T::kRounded ? S::bf16_bits(x) : S::f16_bits(x);
}

/// One token of one head, 16-bit cache: K [head_dim / 2][16][2], V [8][head_dim][2].
template <class S, class T>
void write_halves(std::byte* k_page, std::byte* v_page, int64_t offset, const float* k,
                  const float* v, int64_t head_dim) {
  using I = typename S::I;
  std::byte* k_to = k_page + 4 * offset;
  std::byte* const v_to = v_page + offset / 2 * head_dim * 4;
  for (int64_t d = 0; d < head_dim; d += 16) {
    const int n = static_cast<int>(head_dim - d < 16 ? head_dim - d : 16);
    // Pairs of dims stay together, 64 bytes apart.
    std::byte pairs[32];
    S::store_low_halves(pairs, half_bits<S, T>(n == 16 ? S::load(k + d) : S::load_n(k + d, n)));
    for (int i = 0; i < n / 2; ++i, k_to += 64) __builtin_memcpy(k_to, pairs + 4 * i, 4);
    // The other half of each word is the neighbour's.
    const I bits = half_bits<S, T>(n == 16 ? S::load(v + d) : S::load_n(v + d, n));
    auto* const words = reinterpret_cast<float*>(v_to + 4 * d);
    const I old = n == 16 ? S::iload(words) : S::iload_n(words, n);
    const I both = offset % 2 == 0
                       ? S::ior(S::iand(old, S::iset1(static_cast<int32_t>(0xffff0000u))), bits)
                       : S::ior(S::iand(old, S::iset1(0xffff)), S::template sll<16>(bits));
    S::store_n(words, S::as_f(both), n);
  }
}

/// The same, f32 cache: K [head_dim][16], V [16][head_dim].
inline void write_floats(std::byte* k_page, std::byte* v_page, int64_t offset, const float* k,
                         const float* v, int64_t head_dim) {
  for (int64_t d = 0; d < head_dim; ++d) __builtin_memcpy(k_page + 64 * d + 4 * offset, k + d, 4);
  __builtin_memcpy(v_page + offset * head_dim * 4, v, static_cast<size_t>(head_dim) * 4);
}

template <class S, class T>
void write_token(std::byte* k_page, std::byte* v_page, int64_t offset, const float* k,
                 const float* v, int64_t head_dim, const KvFactors&) {
  if constexpr (T::kParts == 1) {
    write_floats(k_page, v_page, offset, k, v, head_dim);
  } else {
    write_halves<S, T>(k_page, v_page, offset, k, v, head_dim);
  }
}

template <class S, class T>
constexpr AttentionKernels attention_kernels() {
  return {load_queries<S, T>, run_chunk<S, T>, merge_states<S>, finish_rows<S>, write_token<S, T>};
}

}  // namespace
}  // namespace octavo::kernels
