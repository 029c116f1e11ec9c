#pragma once

#include <cstdint>
#include <vector>

namespace octavo::model {

/// One step's work, flattened: plain data that another rank could execute.
/// num_tokens = token_ids.size(); num_seqs = seq_lens.size().
struct ForwardBatch {
  std::vector<int32_t> token_ids;        // [num_tokens]
  std::vector<int32_t> positions;        // [num_tokens] absolute
  std::vector<int64_t> slot_mapping;     // [num_tokens] block_id * block_size + offset
  std::vector<int32_t> query_start_loc;  // [num_seqs + 1]
  std::vector<int32_t> seq_lens;         // [num_seqs] tokens with KV after this step
  std::vector<int32_t> block_tables;     // [num_seqs, max_blocks_per_seq], -1 pads
  int64_t max_blocks_per_seq = 0;
  std::vector<int32_t> logits_rows;  // [num_logits_rows] rows whose logits are wanted, ascending
};

}  // namespace octavo::model
