#pragma once

#include <optional>

#include "kernels/linear/linear_largest.h"
#include "model/layers/embedding.h"
#include "model/layers/linear.h"

namespace octavo::model {

/// Hidden rows to logits, with a matrix of its own or the embedding's.
class LmHead {
 public:
  LmHead() = default;
  /// nullopt: tied to the embedding.
  explicit LmHead(std::optional<kernels::PackedMatrix> matrix) : matrix_(std::move(matrix)) {}

  const kernels::PackedMatrix& matrix(const Embedding& embedding) const {
    return matrix_ ? *matrix_ : embedding.table();
  }
  kernels::PackedMatrix& matrix(Embedding& embedding) {
    return matrix_ ? *matrix_ : embedding.table();
  }
  size_t size_bytes() const { return matrix_ ? matrix_->size_bytes() : 0; }
  size_t workspace_bytes(const Embedding& embedding, int64_t num_rows, int num_threads) const {
    // Not less than linear_workspace_bytes.
    return kernels::linear_largest_workspace_bytes(matrix(embedding), num_rows, num_threads);
  }

  ///   logits  [num_rows, vocab_size];  x  [num_rows, hidden_size], normed on its way by `norm`
  void forward(const kernels::KernelContext& ctx, float* logits, const float* x, int64_t num_rows,
               const Embedding& embedding, const kernels::RowNorm& norm) const {
    const kernels::PackedMatrix& weight = matrix(embedding);
    kernels::linear(ctx, logits, weight.num_rows(), x, weight.num_cols(), num_rows, weight, nullptr,
                    kernels::Epilogue::kStore, &norm);
  }

  /// The same times `factor`, of some rows only the largest.
  void forward_largest(const kernels::KernelContext& ctx, const kernels::LargestOutput& out,
                       const float* x, int64_t num_rows, const Embedding& embedding, float factor,
                       const kernels::RowNorm& norm) const {
    const kernels::PackedMatrix& weight = matrix(embedding);
    kernels::linear_largest(ctx, out, x, weight.num_cols(), num_rows, weight, factor, &norm);
  }

 private:
  std::optional<kernels::PackedMatrix> matrix_;
};

}  // namespace octavo::model
