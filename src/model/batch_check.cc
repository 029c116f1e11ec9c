#include "model/batch_check.h"

#include <fmt/format.h>

namespace octavo::model {
namespace {

Error broken(std::string what) { return Error{Code::kInternal, "forward batch: " + what}; }

Status check_sizes(const ForwardBatch& batch, const BatchBounds& bounds) {
  const StepLimits& limits = bounds.limits;
  const size_t num_tokens = batch.token_ids.size();
  const size_t num_seqs = batch.seq_lens.size();
  if (batch.num_kv_groups != bounds.num_kv_groups) {
    return broken(fmt::format("{} KV groups where the model has {}", batch.num_kv_groups,
                              bounds.num_kv_groups));
  }
  const auto num_groups = size_t(batch.num_kv_groups);
  if (batch.positions.size() != num_tokens ||
      batch.slot_mapping.size() != num_groups * num_tokens) {
    return broken("token_ids, positions and slot_mapping differ in length");
  }
  if (batch.query_start_loc.size() != num_seqs + 1 || batch.max_blocks_per_seq < 0 ||
      batch.block_tables.size() != num_groups * num_seqs * size_t(batch.max_blocks_per_seq)) {
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
  if (!batch.only_largest.empty() && batch.only_largest.size() != batch.logits_rows.size()) {
    return broken("only_largest and logits_rows differ in length");
  }
  if (batch.query_start_loc.front() != 0 || batch.query_start_loc.back() != int32_t(num_tokens)) {
    return broken("query_start_loc does not span the tokens");
  }
  return {};
}

Status check_adapters(const ForwardBatch& batch, int64_t num_adapters) {
  if (batch.row_adapters.empty()) return {};
  if (batch.row_adapters.size() != batch.token_ids.size()) {
    return broken("row_adapters and token_ids differ in length");
  }
  for (const int32_t adapter : batch.row_adapters) {
    if (adapter < -1 || adapter >= num_adapters) {
      return broken(fmt::format("adapter {} of {} loaded", adapter, num_adapters));
    }
  }
  return {};
}

/// One sequence in one KV group.
Status check_sequence(const ForwardBatch& batch, size_t group, size_t seq,
                      const BatchBounds& bounds) {
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
  const int64_t* slots = batch.slot_mapping.data() + group * batch.token_ids.size();
  const int32_t* table = batch.block_tables.data() +
                         int64_t(group * batch.seq_lens.size() + seq) * batch.max_blocks_per_seq;
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
    if (batch.positions[size_t(row)] != position || slots[row] != slot) {
      return broken(fmt::format("row {} of sequence {} is not at its position", row, seq));
    }
  }
  return {};
}

}  // namespace

Status check_batch(const ForwardBatch& batch, const BatchBounds& bounds) {
  OCTAVO_TRY(check_sizes(batch, bounds));
  OCTAVO_TRY(check_adapters(batch, bounds.num_adapters));
  for (const int32_t id : batch.token_ids) {
    if (id < 0 || id >= bounds.vocab_size) {
      return Error{Code::kInvalidArgument,
                   fmt::format("a token id lies outside the vocabulary of {}", bounds.vocab_size)};
    }
  }
  for (size_t group = 0; group < size_t(batch.num_kv_groups); ++group) {
    for (size_t seq = 0; seq < batch.seq_lens.size(); ++seq) {
      OCTAVO_TRY(check_sequence(batch, group, seq, bounds));
    }
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
