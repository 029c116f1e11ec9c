#pragma once

#include "kernels/attention/kv_write_impl.h"
#include "kernels/simd/fp8_forms.h"

// A cache of one-byte floats. Panels read its codes (code_panels_impl.h); where bf16 pairs have a
// dot instruction, the pages that a tile reads are widened to bf16 in the task's scratch instead,
// and the bf16 kernel runs on them.

namespace octavo::kernels {
namespace {

template <class S, class Form>
void run_chunk_of_bytes(const AttentionCall& call, const AttentionChunk& chunk,
                        const AttentionChunk& next, const AttentionScratch& scratch,
                        const AttentionState& result) {
  ChunkView view = view_chunk(call, chunk);
  AttentionCall wide = call;
  wide.head_bytes = 2 * call.head_bytes;
  wide.v_offset = 2 * call.v_offset;
  for (int p = view.page_begin; p < view.page_end; ++p) {
    const std::byte* const from = view.pages[p];
    std::byte* const to = scratch.pages + static_cast<size_t>(p) * wide.head_bytes;
    // Pages lie anywhere, the hardware cannot guess the next one.
    const std::byte* const next = p + 1 < view.page_end ? view.pages[p + 1] : from;
    for (size_t i = 0; i < call.head_bytes; i += 32) {
      S::prefetch(next + i);
      S::template widen_bytes<Form>(to + 2 * i, from + i);
    }
    view.pages[p] = to;
  }
  // The wide keys have the size of a page's keys and values: both are asked for.
  run_pages<S, KvBF16>(wide, *chunk.tile, view, view_chunk(call, next), false, scratch, result);
}

/// The code of each lane in its low byte: nearest, ties to even; beyond the largest finite value,
/// that; NaN stays NaN.
template <class S, class Form>
__attribute__((always_inline)) inline typename S::I fp8_bits(typename S::F x) {
  using I = typename S::I;
  using F = typename S::F;
  constexpr int kDropped = 23 - Form::kMantissaBits;
  constexpr int kSmallestExponent = 127 + 1 - Form::kBias;  // of a normal number, as f32 has it
  const I bits = S::as_i(x);
  const I magnitude = S::iand(bits, S::iset1(0x7fffffff));
  const F a = S::min(S::as_f(magnitude), S::set1(Form::kLargest));
  // Adding a power of two whose last bit is that of the result and taking it away again rounds;
  // below the normal numbers the spacing stays what it is there.
  const I exponent =
      S::imax(S::iand(S::as_i(a), S::iset1(0x7f800000)), S::iset1(kSmallestExponent << 23));
  const F magic = S::as_f(S::iadd(exponent, S::iset1(kDropped << 23)));
  const F rounded = S::sub(S::add(a, magic), magic);
  const I normal = S::isub(S::template srl<kDropped>(S::as_i(rounded)),
                           S::iset1((kSmallestExponent - 1) << Form::kMantissaBits));
  // With the smallest normal number added, a subnormal's mantissa stands at its place. The other
  // formula's result is the larger one for normal numbers, and this one for subnormals.
  const F lifted = S::add(rounded, S::as_f(S::iset1(kSmallestExponent << 23)));
  const I subnormal = S::isub(S::template srl<kDropped>(S::as_i(lifted)),
                              S::iset1(kSmallestExponent << Form::kMantissaBits));
  const I code = S::imax(normal, subnormal);
  const I beyond = S::imax(S::isub(magnitude, S::iset1(0x7f800000)), S::izero());
  const I is_nan = S::template srl<23>(S::iadd(beyond, S::iset1(0x7fffff)));  // 0 or 1
  const I nan = S::iand(S::isub(S::izero(), is_nan), S::iset1(0x7f));
  return S::ior(S::ior(code, nan), S::iand(S::template srl<24>(bits), S::iset1(0x80)));
}

/// One token of one head: K [head_dim / 2][16][2], rotated, V [8][head_dim][2]; both times
/// `factors`.
template <class S, class Form>
void write_bytes(std::byte* k_page, std::byte* v_page, int64_t offset, const float* k,
                 const float* v, int64_t head_dim, const KvFactors& factors) {
  std::byte codes[16];
  std::byte* k_to = k_page + 2 * offset;
  const typename S::F k_factor = S::set1(key_rotation_factor(rotation_dims(head_dim)) * factors.k);
  const typename S::F v_factor = S::set1(factors.v);
  for_rotated<S>(k, head_dim, [&](const float* piece, int64_t, int64_t num_dims) {
    for (int64_t d = 0; d < num_dims; d += 16) {
      const int n = static_cast<int>(num_dims - d < 16 ? num_dims - d : 16);
      S::store_low_bytes(codes, fp8_bits<S, Form>(S::mul(S::load(piece + d), k_factor)));
      for (int i = 0; i < n / 2; ++i, k_to += 32) __builtin_memcpy(k_to, codes + 2 * i, 2);
    }
  });
  std::byte* v_to = v_page + offset / 2 * head_dim * 2 + offset % 2;
  for (int64_t d = 0; d < head_dim; d += 16) {
    const int n = static_cast<int>(head_dim - d < 16 ? head_dim - d : 16);
    const typename S::F x = n == 16 ? S::load(v + d) : S::load_n(v + d, n);
    S::store_low_bytes(codes, fp8_bits<S, Form>(S::mul(x, v_factor)));
    for (int i = 0; i < n; ++i, v_to += 2) *v_to = codes[i];
  }
}

template <class S, class Form>
constexpr AttentionKernels fp8_attention_kernels() {
  if constexpr (S::kBf16Dot) {
    return {load_queries<S, KvBF16, true>, run_chunk_of_bytes<S, Form>, merge_states<S>,
            finish_rows<S>, write_bytes<S, Form>};
  } else {
    using T = KvCodes<Form>;
    return {load_queries<S, T>, run_chunk<S, T>, merge_states<S>, finish_rows<S>,
            write_bytes<S, Form>};
  }
}

}  // namespace
}  // namespace octavo::kernels
