#pragma once

#include <cstdint>

#include "device/dtype.h"
#include "device/thread_pool.h"
#include "kernels/context.h"

namespace octavo::kernels {

/// Tokens in one page of the kernels' KV layout; the number of f32 lanes of an AVX-512 register. A
/// block of the cache is block_size / 16 consecutive pages, so block_size is a multiple of 16.
inline constexpr int64_t kPageTokens = 16;

/// The cache of one layer. For each page and kv head, keys then values lie together:
///   bf16, f16, e4m3, e5m2  K [head_dim / 2][16 tokens][2],  V [8 token pairs][head_dim][2]
///   f32                    K [head_dim][16 tokens],         V [16 tokens][head_dim]
/// head_dim must be even. Codes of the types of one byte stand for value / k_scale and
/// value / v_scale; the other types leave these at 1.
/// Their keys are rotated (docs/decisions/0008), K = f H k with the Walsh-Hadamard matrix
/// H[i][j] = (-1)^(number of ones in i & j) over blocks of n dims, the largest power of two that
/// divides head_dim, at most 256; f is the largest power of two up to 1 / sqrt(n).
struct KvLayer {
  std::byte* data = nullptr;
  device::DType dtype = device::DType::kBF16;
  int64_t num_pages = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  float k_scale = 1.0f;  // of K as it is stored: rotated
  float v_scale = 1.0f;
};

/// Bytes of one page of one layer (all kv heads, K and V).
size_t kv_page_bytes(device::DType dtype, int64_t num_kv_heads, int64_t head_dim);

/// How many times as large as the largest dim of a key a dim of the rotated one can be, a power of
/// two: where keys / scale stay in range, rotated keys / (scale * this) do.
float rotated_key_growth(int64_t head_dim);

/// K and V of this step's tokens.
struct KvTokens {
  const float* k = nullptr;  // [num_tokens, num_kv_heads, head_dim], rows `stride` apart
  const float* v = nullptr;  // the same
  int64_t stride = 0;
  /// [num_tokens] slot = block_id * block_size + offset; tokens of one page appear in order.
  const int64_t* slot_mapping = nullptr;
};

/// Writes K and V of this step's tokens into their slots, rounded to the cache's dtype (of one
/// byte: divided by their scales first): to nearest, ties to even; what lies beyond e4m3's or
/// e5m2's largest finite value (infinities too) becomes that value, NaN stays NaN (where keys are
/// rotated, what is not finite reaches all dims of its block). When a token is the first of its
/// page the rest of the page is zeroed, so that what an earlier owner left there can never reach a
/// result.
void kv_write(const KernelContext& ctx, const KvLayer& layer, const KvTokens& tokens,
              int64_t num_tokens);

/// Which tokens are in the step and where their keys lie.
struct AttentionBatch {
  int64_t num_seqs = 0;
  const int32_t* query_start_loc = nullptr;  // [num_seqs + 1] rows of q of each sequence
  const int32_t* seq_lens = nullptr;      // [num_seqs] keys of each sequence, this step's included
  const int32_t* block_tables = nullptr;  // [num_seqs, max_blocks_per_seq], -1 pads
  int64_t max_blocks_per_seq = 0;
  int64_t block_size = 16;
};

/// Which keys a query may see.
enum class MaskKind {
  kCausal,         // those up to its own position, the last `sliding_window` of them
  kBidirectional,  // all of the sequence, or those less than `sliding_window` away (encoders)
};

struct AttentionParams {
  int64_t num_heads = 0;
  float scale = 1.0f;
  int64_t sliding_window = 0;  // keys a query sees, itself included; 0 = all
  float softcap = 0.0f;        // tanh cap of the scores; 0 = none
  MaskKind mask = MaskKind::kCausal;
};

/// Attention that reads K and V only from the cache, also for tokens of the same
/// step (all of a layer's K and V are written first). Query row r of sequence s stands at absolute
/// position seq_len - num_queries + r. Sums run over fixed ranges of absolute key position
/// (kAttentionChunk), merged in order, in prefill and decode alike: promise P1. A bidirectional
/// mask needs the keys of all the sequence in the cache: its queries may come in pieces, its keys
/// not. Queries and weights are rounded to bf16 where the cache is bf16 or fp8. With an fp8 cache
/// queries are rotated as its keys are, times 1 / (n f): the bits are those of a bf16 cache of the
/// same values, rotated keys included, for queries so rotated.
///   out, q  [num_tokens, num_heads, head_dim] f32, rows `out_stride` / `q_stride` apart
///   unwritten  K and V of the step's tokens, row for row those of q, where kv_write has not been
///              called: the task that reads a token writes it first, while its page is on the way.
///              Only where one_query_each(batch): pieces of a prompt read each other's keys.
void attention(const KernelContext& ctx, float* out, int64_t out_stride, const float* q,
               int64_t q_stride, const KvLayer& layer, const AttentionBatch& batch,
               const AttentionParams& params, const KvTokens* unwritten = nullptr);

/// Does every sequence have one query, as in a decode step?
bool one_query_each(const AttentionBatch& batch);

inline constexpr int64_t kAttentionChunk = 256;

/// What `attention` will read of the cache, for ThreadPool::read_next: of one query's few keys,
/// otherwise nothing (many tiles and chunks fetch for one another).
struct KvReading {
  KvLayer layer;
  AttentionBatch batch;
  AttentionParams params;

  /// Valid as long as this.
  device::Reading reading() const;
};

/// Whole sequences that have no cache: the step's own tokens are all the keys there are.
struct AttentionRows {
  int64_t num_seqs = 0;
  const int32_t* query_start_loc = nullptr;  // [num_seqs + 1] rows of q, k and v of each sequence
  device::DType kv_dtype = device::DType::kBF16;  // K and V are rounded to it, as a cache would
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
};

/// Attention without KV cache (encoders, pooling), straight from activations: K and V of the step
/// pass through pages in the workspace and then the same kernels, so a sequence gives the bits that
/// a cache of `kv_dtype` would give.
///   out, q  [num_tokens, num_heads, head_dim],  k, v  [num_tokens, num_kv_heads, head_dim], f32,
///   rows `out_stride`, `q_stride`, `kv_stride` apart
void attention_without_cache(const KernelContext& ctx, float* out, int64_t out_stride,
                             const float* q, int64_t q_stride, const float* k, const float* v,
                             int64_t kv_stride, const AttentionRows& rows,
                             const AttentionParams& params);

/// Scratch of `attention_without_cache`, bytes, for steps of at most `num_tokens` tokens in at most
/// `rows.num_seqs` sequences.
size_t attention_without_cache_workspace_bytes(const AttentionRows& rows, int64_t num_tokens,
                                               int64_t num_heads, int num_threads);

/// Scratch that `attention` takes from the workspace, bytes, for steps of at most `num_tokens`
/// tokens and sequences of at most `max_model_len` keys on a pool of `num_threads`.
size_t attention_workspace_bytes(int64_t num_tokens, int64_t num_heads, int64_t head_dim,
                                 int64_t max_model_len, int num_threads);

}  // namespace octavo::kernels
