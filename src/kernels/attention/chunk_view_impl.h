#pragma once

#include "kernels/attention/attention_params.h"

// What a tile, and each group of its rows, sees of one chunk of keys.

namespace octavo::kernels {
namespace {

/// Where the pages of a chunk lie and which of its keys a tile sees at all.
struct ChunkView {
  const std::byte* pages[kAttentionChunkPages];  // K of the tile's head, then V
  int64_t key_begin;                             // absolute position of the chunk
  int page_begin, page_end;                      // of `pages` that are read
  int key_end;                                   // first key of the chunk that no row may see
  bool is_whole;                                 // does every row see every key?
};
constexpr ChunkView kNoPages{};

/// What a few rows that run through the inner loops together read of a chunk.
struct KeySpan {
  int page_begin, page_end;
  int key_end;  // first key that none of the rows sees
};

inline __attribute__((always_inline)) int clamp_to_chunk(int64_t key) {
  return static_cast<int>(key < 0 ? 0 : key > kAttentionChunkKeys ? kAttentionChunkKeys : key);
}

/// First key that the query at `position` sees, relative to the chunk.
inline __attribute__((always_inline)) int first_key(const AttentionCall& call, int64_t position,
                                                    int64_t key_begin) {
  if (call.sliding_window <= 0) return 0;
  return clamp_to_chunk(position - call.sliding_window + 1 - key_begin);
}

/// First key behind those that the query at `position` sees, relative to the chunk.
inline __attribute__((always_inline)) int end_key(const AttentionCall& call,
                                                  const AttentionTile& tile, int64_t position,
                                                  int64_t key_begin) {
  if (!call.bidirectional) return clamp_to_chunk(position + 1 - key_begin);
  int64_t end = tile.num_keys;
  if (call.sliding_window > 0 && position + call.sliding_window < end) {
    end = position + call.sliding_window;
  }
  return clamp_to_chunk(end - key_begin);
}

inline __attribute__((always_inline)) ChunkView view_chunk(const AttentionCall& call,
                                                           const AttentionChunk& chunk) {
  if (chunk.tile == nullptr) return kNoPages;
  const AttentionTile& tile = *chunk.tile;
  ChunkView view;
  const int64_t last = tile.position + tile.num_queries - 1;
  view.key_begin = chunk.index * kAttentionChunkKeys;
  view.key_end = end_key(call, tile, last, view.key_begin);
  view.page_begin = first_key(call, tile.position, view.key_begin) / 16;
  view.page_end = (view.key_end + 15) / 16;
  view.is_whole = first_key(call, last, view.key_begin) == 0 &&
                  end_key(call, tile, tile.position, view.key_begin) == kAttentionChunkKeys;
  for (int i = view.page_begin; i < view.page_end; ++i) {
    const int64_t page = chunk.index * kAttentionChunkPages + i;
    const int64_t block = tile.block_table[page / tile.pages_per_block];
    const auto index =
        static_cast<size_t>(block * tile.pages_per_block + page % tile.pages_per_block);
    view.pages[i] =
        call.kv + index * call.page_bytes + static_cast<size_t>(tile.kv_head) * call.head_bytes;
  }
  return view;
}

/// Of rows [row, row + rows) of the tile.
inline __attribute__((always_inline)) KeySpan span_of_rows(const AttentionCall& call,
                                                           const AttentionTile& tile,
                                                           const ChunkView& view, int64_t row,
                                                           int rows) {
  if (view.is_whole) return {0, kAttentionChunkPages, kAttentionChunkKeys};
  const int64_t first = tile.position + row / call.group;
  const int64_t last = tile.position + (row + rows - 1) / call.group;
  const int end = end_key(call, tile, last, view.key_begin);
  return {first_key(call, first, view.key_begin) / 16, (end + 15) / 16, end};
}

}  // namespace
}  // namespace octavo::kernels
