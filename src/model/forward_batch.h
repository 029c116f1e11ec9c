#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace octavo::model {

/// One step's work, flattened: plain data that another rank could execute.
/// num_tokens = token_ids.size(); num_seqs = seq_lens.size(). Layers of KV group g use slots and
/// tables of index g.
struct ForwardBatch {
  std::vector<int32_t> token_ids;  // [num_tokens]
  std::vector<int32_t> positions;  // [num_tokens] absolute
  /// [num_kv_groups, num_tokens] block_id * block_size + offset
  std::vector<int64_t> slot_mapping;
  std::vector<int32_t> query_start_loc;  // [num_seqs + 1]
  std::vector<int32_t> seq_lens;         // [num_seqs] tokens with KV after this step
  /// [num_kv_groups, num_seqs, max_blocks_per_seq], -1 pads
  std::vector<int32_t> block_tables;
  int64_t max_blocks_per_seq = 0;
  int32_t num_kv_groups = 1;
  std::vector<int32_t> logits_rows;  // [num_logits_rows] rows whose logits are wanted, ascending
  /// [num_logits_rows] 1 where only the largest logit and its id are wanted; empty: nowhere.
  std::vector<uint8_t> only_largest;
  /// [num_tokens] adapter of each row, -1 = none; empty: no row has one.
  std::vector<int32_t> row_adapters;

  /// Of the rows of logits, how many are written whole.
  int64_t num_whole_rows() const {
    const auto num_rows = static_cast<int64_t>(logits_rows.size());
    return num_rows - std::count(only_largest.begin(), only_largest.end(), uint8_t{1});
  }
};

}  // namespace octavo::model
