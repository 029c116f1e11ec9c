#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "model/model.h"

namespace octavo::engine::testing {

/// A model whose logits are a hash of all tokens up to the row's position, read back through block
/// table and KV slots. Any mistake in slots, tables, sharing or recompute changes its output;
/// batch, chunks and thread count cannot.
class FakeModel final : public model::Model {
 public:
  static constexpr int64_t kVocabSize = 96;

  FakeModel() {
    info_.architecture = "FakeForCausalLM";
    info_.vocab_size = kVocabSize;
    info_.max_model_len = 4096;
    info_.dtype = "float32";
    info_.weight_bytes = 1000;
  }

  const model::ModelInfo& info() const override { return info_; }
  size_t kv_block_bytes(int64_t block_size) const override { return 8 * block_size; }
  Status allocate_kv(int64_t num_blocks, int64_t block_size) override {
    block_size_ = block_size;
    slots_.assign(static_cast<size_t>(num_blocks * block_size), {});
    return {};
  }
  size_t activation_bytes(int64_t, int64_t, int64_t, int64_t, int) const override { return 1000; }
  Status reserve(const kernels::KernelContext&, int64_t, int64_t, int64_t, int64_t) override {
    return {};
  }

  Status forward(const kernels::KernelContext&, const model::ForwardBatch& batch,
                 std::span<float> logits, std::span<kernels::LogitsScan> largest) override {
    if (++num_forwards == fail_at) return Error{Code::kInternal, "the fake model failed"};
    const size_t num_tokens = batch.token_ids.size();
    CHECK_EQ(batch.slot_mapping.size(), num_tokens);
    CHECK_EQ(batch.query_start_loc.back(), static_cast<int32_t>(num_tokens));
    CHECK_EQ(logits.size(), static_cast<size_t>(batch.num_whole_rows() * kVocabSize));
    CHECK_EQ(largest.size(), batch.only_largest.size());
    for (size_t i = 0; i < num_tokens; ++i) {
      slots_.at(batch.slot_mapping[i]) = {batch.token_ids[i], batch.positions[i]};
    }
    size_t sequence = 0;
    for (size_t r = 0; r < batch.logits_rows.size(); ++r) {
      const int32_t row = batch.logits_rows[r];
      while (row >= batch.query_start_loc[sequence + 1]) ++sequence;
      std::array<float, kVocabSize> row_logits;
      fill_row(batch, sequence, batch.positions[row], row_logits);
      if (!batch.only_largest.empty() && batch.only_largest[r] != 0) {
        largest[r] = kernels::scan_logits(row_logits);
        continue;
      }
      std::ranges::copy(row_logits, logits.begin());
      logits = logits.subspan(kVocabSize);
    }
    num_tokens_run += static_cast<int64_t>(num_tokens);
    return {};
  }

  int64_t num_forwards = 0;
  int64_t num_tokens_run = 0;
  int64_t fail_at = -1;
  int32_t poison_token = -1;  // a history that ends in it gives NaN

 private:
  struct Slot {
    int32_t token = -1;
    int32_t position = -1;
  };

  void fill_row(const model::ForwardBatch& batch, size_t sequence, int32_t position,
                std::span<float> row) {
    CHECK_LT(position, batch.seq_lens[sequence]);
    uint64_t hash = 1;
    Slot slot;
    for (int32_t p = 0; p <= position; ++p) {
      const int64_t block =
          batch.block_tables.at(sequence * batch.max_blocks_per_seq + p / block_size_);
      CHECK_GE(block, 0);
      slot = slots_.at(static_cast<size_t>(block * block_size_ + p % block_size_));
      CHECK_EQ(slot.position, p);
      hash = SplitMix64(hash * 31 + static_cast<uint64_t>(slot.token)).next();
    }
    SplitMix64 random(hash);
    for (float& logit : row) logit = random.uniform() * 12.0f - 6.0f;
    if (slot.token == poison_token) row[row.size() / 2] = std::nanf("");
  }

  model::ModelInfo info_;
  int64_t block_size_ = 16;
  std::vector<Slot> slots_;
};

}  // namespace octavo::engine::testing
