#include "model/batch_check.h"

#include <fmt/format.h>

namespace octavo::model {
namespace {

Error broken(std::string what) { return Error{Code::kInternal, "forward batch: " + what}; }

Status check_sizes(const ForwardBatch& batch, const StepLimits& limits) {
  const size_t num_tokens = batch.token_ids.size();
  const size_t num_seqs = batch.seq_lens.size();
  if (batch.positions.size() != num_tokens || batch.slot_mapping.size() != num_tokens) {
    return broken("token_ids, positions and slot_mapping differ in length");
  }
  if (batch.query_start_loc.size() != num_seqs + 1 || batch.max_blocks_per_seq < 0 ||
      batch.block_tables.size() != num_seqs * size_t(batch.max_blocks_per_seq)) {
    return broken("query_start_loc or block_tables do not fit seq_lens");
  }
  if (int64_t(num_tokens) > limits.num_tokens || int64_t(num_seqs) > limits.num_seqs ||
      int64_t(batch.logits_rows.size()) > limits.num_logits_rows) {
    return broken(
        fmt::format("{} tokens, {} sequences, {} logits rows exceed the reserved {}, {}, "
                    "{}",
                    num_tokens, num_seqs, batch.logits_rows.size(), limits.num_tokens,
                    limits.num_seqs, limits.num_logits_rows));
  }
  if (batch.query_start_loc.front() != 0 || batch.query_start_loc.back() != int32_t(num_tokens)) {
    return broken("query_start_loc does not span the tokens");
  }
  return {};
}

Status check_sequence(const ForwardBatch& batch, size_t seq, const BatchBounds& bounds) {
  const int64_t begin = batch.query_start_loc[seq];
  const int64_t end = batch.query_start_loc[seq + 1];
  const int64_t seq_len = batch.seq_lens[seq];
  if (begin > end || end > int64_t(batch.token_ids.size()) || seq_len < end - begin ||
      seq_len > bounds.limits.max_model_len) {
    return broken(fmt::format("sequence {} has {} keys for {} queries", seq, seq_len, end - begin));
  }
  const int64_t num_needed = (seq_len + bounds.block_size - 1) / bounds.block_size;
  if (num_needed > batch.max_blocks_per_seq) {
    return broken(fmt::format("sequence {} needs {} blocks", seq, num_needed));
  }
  const int32_t* table = batch.block_tables.data() + int64_t(seq) * batch.max_blocks_per_seq;
  for (int64_t i = 0; i < num_needed; ++i) {
    if (table[i] < 0 || table[i] >= bounds.num_blocks) {
      return broken(
          fmt::format("sequence {} has block {} of {}", seq, table[i], bounds.num_blocks));
    }
  }
  for (int64_t row = begin; row < end; ++row) {
    const int64_t position = seq_len - (end - row);
    const int64_t slot = int64_t(table[position / bounds.block_size]) * bounds.block_size +
                         position % bounds.block_size;
    if (batch.positions[size_t(row)] != position || batch.slot_mapping[size_t(row)] != slot) {
      return broken(fmt::format("row {} of sequence {} is not at its position", row, seq));
    }
  }
  return {};
}

}  // namespace

Status check_batch(const ForwardBatch& batch, const BatchBounds& bounds) {
  OCTAVO_TRY(check_sizes(batch, bounds.limits));
  for (const int32_t id : batch.token_ids) {
    if (id < 0 || id >= bounds.vocab_size) {
      return Error{Code::kInvalidArgument,
                   fmt::format("a token id lies outside the vocabulary of {}", bounds.vocab_size)};
    }
  }
  for (size_t seq = 0; seq < batch.seq_lens.size(); ++seq) {
    OCTAVO_TRY(check_sequence(batch, seq, bounds));
  }
  int64_t previous = -1;
  for (const int32_t row : batch.logits_rows) {
    if (row <= previous || row >= int64_t(batch.token_ids.size())) {
      return broken("logits_rows do not ascend within the batch");
    }
    previous = row;
  }
  return {};
}

}  // namespace octavo::model
