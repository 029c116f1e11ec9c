#include "model/layers/linear.h"

#include <algorithm>

namespace octavo::model {

Linear::Linear(std::vector<kernels::PackedMatrix> matrices, std::vector<float> bias,
               LinearPlacement placement)
    : matrices_(std::move(matrices)), bias_(std::move(bias)), placement_(placement) {
  for (const kernels::PackedMatrix& matrix : matrices_) {
    CHECK_EQ(matrix.num_cols(), matrices_.front().num_cols());
    num_rows_ += matrix.num_rows();
  }
  if (!bias_.empty()) CHECK_EQ(int64_t(bias_.size()), num_rows_);
}

size_t Linear::size_bytes() const {
  size_t total = bias_.size() * sizeof(float);
  for (const kernels::PackedMatrix& matrix : matrices_) total += matrix.size_bytes();
  return total;
}

size_t Linear::workspace_bytes(int64_t num_tokens) const {
  size_t most = 0;
  for (const kernels::PackedMatrix& matrix : matrices_) {
    most = std::max(most, kernels::linear_workspace_bytes(matrix, num_tokens));
  }
  return most;
}

Status Linear::forward(const kernels::KernelContext& ctx, float* out, const float* x,
                       int64_t num_tokens, kernels::Epilogue epilogue,
                       std::span<const int32_t> row_adapters) const {
  if (num_tokens == 0) return {};
  if (std::ranges::any_of(row_adapters, [](int32_t adapter) { return adapter >= 0; })) {
    return Error{Code::kUnsupported, "a row asks for an adapter, and none is loaded"};
  }
  const bool is_summed = placement_.split == Split::kInputs && placement_.communicator != nullptr &&
                         placement_.communicator->world_size() > 1;
  // The residual and the bias must enter a sum over ranks once: rank 0 brings them.
  const bool is_first = !is_summed || placement_.communicator->rank() == 0;
  if (!is_first) epilogue = kernels::Epilogue::kStore;
  int64_t row = 0;
  for (const kernels::PackedMatrix& matrix : matrices_) {
    const float* bias = bias_.empty() || !is_first ? nullptr : bias_.data() + row;
    kernels::linear(ctx, out + row, num_rows_, x, num_cols(), num_tokens, matrix, bias, epilogue);
    row += matrix.num_rows();
  }
  if (!is_summed) return {};
  return placement_.communicator->all_reduce(out, size_t(num_tokens) * size_t(num_rows_));
}

}  // namespace octavo::model
