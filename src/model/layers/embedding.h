#pragma once

#include "kernels/embedding/embedding.h"

namespace octavo::model {

/// The table of token vectors. A tied LM head multiplies with the same packed matrix.
class Embedding {
 public:
  Embedding() = default;
  explicit Embedding(kernels::PackedMatrix table) : table_(std::move(table)) {}

  const kernels::PackedMatrix& table() const { return table_; }
  kernels::PackedMatrix& table() { return table_; }
  size_t size_bytes() const { return table_.size_bytes(); }

  ///   out  [num_tokens, hidden_size];  token_ids  [num_tokens], each in [0, vocab_size)
  void forward(const kernels::KernelContext& ctx, float* out, const int32_t* token_ids,
               int64_t num_tokens) const {
    kernels::embedding(ctx, out, token_ids, num_tokens, table_);
  }

 private:
  kernels::PackedMatrix table_;
};

}  // namespace octavo::model
