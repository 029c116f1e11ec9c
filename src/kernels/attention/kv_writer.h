#pragma once

#include <cstring>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_params.h"

namespace octavo::kernels {

/// Puts single tokens of one layer into their slots. Borrows what it is made of.
class KvWriter {
 public:
  KvWriter(const KvLayer& layer, const KvTokens& tokens)
      : layer_(layer),
        tokens_(tokens),
        write_token_(attention_kernels_of(layer.dtype).write_token),
        page_bytes_(kv_page_bytes(layer.dtype, layer.num_kv_heads, layer.head_dim)),
        head_bytes_(kv_page_bytes(layer.dtype, 1, layer.head_dim)),
        factors_{1.0f / layer.k_scale, 1.0f / layer.v_scale} {}

  int64_t page(int64_t token) const { return tokens_.slot_mapping[token] / kPageTokens; }

  /// Asks for the cache lines that `write` changes. A token's keys lie in as many lines as it has
  /// dims or pairs of dims, and a store that misses keeps the next one waiting.
  void fetch(int64_t token, int64_t head) const {
    const std::byte* const k_page = page_at(token, head);
    const std::byte* const v_page = k_page + head_bytes_ / 2;
    const size_t pair_bytes = head_bytes_ / 2 / (kPageTokens / 2);  // of V
    const auto pair = static_cast<size_t>(tokens_.slot_mapping[token] % kPageTokens / 2);
    for (size_t i = 0; i < head_bytes_ / 2; i += 64) __builtin_prefetch(k_page + i, 1);
    for (size_t i = 0; i < pair_bytes; i += 64) {
      __builtin_prefetch(v_page + pair * pair_bytes + i, 1);
    }
  }

  void write(int64_t token, int64_t head) const {
    const int64_t offset = tokens_.slot_mapping[token] % kPageTokens;
    std::byte* const k_page = page_at(token, head);
    if (offset == 0) std::memset(k_page, 0, head_bytes_);
    const int64_t from = token * tokens_.stride + head * layer_.head_dim;
    write_token_(k_page, k_page + head_bytes_ / 2, offset, tokens_.k + from, tokens_.v + from,
                 layer_.head_dim, factors_);
  }

 private:
  std::byte* page_at(int64_t token, int64_t head) const {
    return layer_.data + static_cast<size_t>(page(token)) * page_bytes_ +
           static_cast<size_t>(head) * head_bytes_;
  }

  const KvLayer& layer_;
  const KvTokens& tokens_;
  decltype(AttentionKernels::write_token) write_token_;
  size_t page_bytes_, head_bytes_;
  KvFactors factors_;
};

}  // namespace octavo::kernels
