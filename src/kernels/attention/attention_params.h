#pragma once

#include <cstddef>
#include <cstdint>

#include "device/dtype.h"

// What attention.cc hands to the variants: plain data, safe to include where ISA flags are set.

namespace octavo::kernels {

/// One call of `attention`, layouts as in attention.h.
struct AttentionCall {
  const std::byte* kv = nullptr;
  size_t page_bytes = 0;  // all kv heads
  size_t head_bytes = 0;  // K and V of one head
  size_t v_offset = 0;    // of V behind K
  int64_t head_dim = 0;
  int64_t group = 0;     // query heads of one kv head
  float scale = 1.0f;    // that of the cache's keys included
  float v_scale = 1.0f;  // of the cache's values
  float softcap = 0.0f;
  int64_t sliding_window = 0;
  bool bidirectional = false;
  const float* q = nullptr;
  int64_t q_stride = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
};

/// Consecutive queries of one sequence, for all heads of one kv head's group. Its rows are
/// [query][head of the group].
struct AttentionTile {
  const int32_t* block_table = nullptr;  // of the sequence
  int64_t pages_per_block = 1;
  int64_t kv_head = 0;
  int64_t token = 0;     // row of q and out of the first query
  int64_t position = 0;  // absolute position of the first query
  int64_t num_queries = 0;
  int64_t num_keys = 0;  // of the sequence
};

/// One chunk of the keys that a tile sees.
struct AttentionChunk {
  const AttentionTile* tile = nullptr;  // null: none
  int64_t index = 0;
};

/// Running softmax of a tile's rows: largest score (in units of log2 e), sum of exponentials,
/// weighted sum of V (not yet divided); `row_floats` floats a row of o.
struct AttentionState {
  float* m = nullptr;
  float* l = nullptr;
  float* o = nullptr;
};

/// Memory of one task.
struct AttentionScratch {
  std::byte* q = nullptr;        // [rows][head_dim] f32, or bf16 pairs
  float* scores = nullptr;       // [rows][256]
  std::byte* weights = nullptr;  // [rows][256] bf16: the exponentials (bf16 and fp8 caches)
  std::byte* pages = nullptr;    // [16] pages of one head in bf16 (fp8 caches only)
  float* panel = nullptr;        // [kAttentionPanelFloats] K or V of a few pages, widened
};

/// What K and V are multiplied with before a one-byte cache rounds them; other caches ignore it.
struct KvFactors {
  float k = 1.0f;
  float v = 1.0f;
};

inline constexpr int kAttentionChunkPages = 16;
inline constexpr int kAttentionChunkKeys = 256;
inline constexpr int kAttentionPanelFloats = 64 * 64;  // 64 dims of 4 pages: 16 KiB

constexpr int64_t attention_row_floats(int64_t head_dim) { return (head_dim + 15) / 16 * 16; }

/// All kernels of one ISA and cache type.
struct AttentionKernels {
  /// Rounds and scales a tile's queries into scratch.q, rotated where the cache's keys are.
  void (*load_queries)(const AttentionCall&, const AttentionTile&, const AttentionScratch&);
  /// One chunk of keys from zero; m is -inf for rows that see none of it. Asks meanwhile for the
  /// keys of `next`, which this thread will want.
  void (*run_chunk)(const AttentionCall&, const AttentionChunk& chunk, const AttentionChunk& next,
                    const AttentionScratch&, const AttentionState& result);
  /// state = state joined with a later chunk's result; start from m = -inf.
  void (*merge)(int64_t num_rows, int64_t head_dim, const AttentionState& state,
                const AttentionState& chunk);
  /// out = o / l, times the cache's scale of V.
  void (*finish)(const AttentionCall&, const AttentionTile&, const AttentionState& state);
  /// K and V of one token and head into place `offset` of their page.
  void (*write_token)(std::byte* k_page, std::byte* v_page, int64_t offset, const float* k,
                      const float* v, int64_t head_dim, const KvFactors& factors);
};

/// The chosen variant, of a cache of `dtype`.
const AttentionKernels& attention_kernels_of(device::DType dtype);

/// Index order: DType's (f32, f16, bf16, e4m3, e5m2).
namespace generic {
extern const AttentionKernels kAttention[device::kNumDTypes];
}
namespace avx2 {
extern const AttentionKernels kAttention[device::kNumDTypes];
}
namespace avx512_core {
extern const AttentionKernels kAttention[device::kNumDTypes];
}
namespace avx512_bf16 {
extern const AttentionKernels kAttention[device::kNumDTypes];
}

}  // namespace octavo::kernels
