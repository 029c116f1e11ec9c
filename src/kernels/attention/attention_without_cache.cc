#include <algorithm>

#include "kernels/attention/attention.h"

namespace octavo::kernels {
namespace {

/// Whole blocks of one page each, sequences one after another.
int64_t pages_of(int64_t num_keys) { return (num_keys + kPageTokens - 1) / kPageTokens; }

template <class T>
T* take_array(const KernelContext& ctx, int64_t count) {
  return reinterpret_cast<T*>(ctx.workspace.take(static_cast<size_t>(count) * sizeof(T)));
}

}  // namespace

void attention_without_cache(const KernelContext& ctx, float* out, int64_t out_stride,
                             const float* q, int64_t q_stride, const float* k, const float* v,
                             int64_t kv_stride, const AttentionRows& rows,
                             const AttentionParams& params) {
  int64_t num_pages = 0;
  int64_t most_pages = 0;
  for (int64_t s = 0; s < rows.num_seqs; ++s) {
    const int64_t pages = pages_of(rows.query_start_loc[s + 1] - rows.query_start_loc[s]);
    num_pages += pages;
    most_pages = std::max(most_pages, pages);
  }
  const int64_t num_tokens = rows.num_seqs > 0 ? rows.query_start_loc[rows.num_seqs] : 0;
  if (num_tokens == 0) return;
  const size_t mark = ctx.workspace.mark();
  KvLayer layer{nullptr, rows.kv_dtype, num_pages, rows.num_kv_heads, rows.head_dim};
  const auto kv_bytes = kv_page_bytes(rows.kv_dtype, rows.num_kv_heads, rows.head_dim);
  layer.data = take_array<std::byte>(ctx, num_pages * static_cast<int64_t>(kv_bytes));
  int64_t* const slots = take_array<int64_t>(ctx, num_tokens);
  int32_t* const lens = take_array<int32_t>(ctx, rows.num_seqs);
  int32_t* const tables = take_array<int32_t>(ctx, rows.num_seqs * most_pages);
  int64_t page = 0;
  for (int64_t s = 0; s < rows.num_seqs; ++s) {
    const int64_t begin = rows.query_start_loc[s];
    const int64_t len = rows.query_start_loc[s + 1] - begin;
    lens[s] = static_cast<int32_t>(len);
    for (int64_t t = 0; t < len; ++t) slots[begin + t] = page * kPageTokens + t;
    for (int64_t i = 0; i < most_pages; ++i) {
      tables[s * most_pages + i] = i < pages_of(len) ? static_cast<int32_t>(page + i) : -1;
    }
    page += pages_of(len);
  }
  kv_write(ctx, layer, {k, v, kv_stride, slots}, num_tokens);
  const AttentionBatch batch{rows.num_seqs, rows.query_start_loc, lens,
                             tables,        most_pages,           kPageTokens};
  attention(ctx, out, out_stride, q, q_stride, layer, batch, params);
  ctx.workspace.reset(mark);
}

size_t attention_without_cache_workspace_bytes(const AttentionRows& rows, int64_t num_tokens,
                                               int64_t num_heads, int num_threads) {
  // The longest table belongs to all sequences: one long among many short ones is the worst.
  const auto seqs = static_cast<size_t>(rows.num_seqs);
  const auto pages = static_cast<size_t>(pages_of(num_tokens) + rows.num_seqs);
  const auto longest = static_cast<size_t>(pages_of(num_tokens));
  return round_up_64(pages * kv_page_bytes(rows.kv_dtype, rows.num_kv_heads, rows.head_dim)) +
         round_up_64(static_cast<size_t>(num_tokens) * sizeof(int64_t)) +
         round_up_64(seqs * sizeof(int32_t)) + round_up_64(seqs * longest * sizeof(int32_t)) +
         attention_workspace_bytes(num_tokens, num_heads, rows.head_dim, num_tokens, num_threads);
}

}  // namespace octavo::kernels
