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

std::vector<int32_t> Linear::take_col_order() {
  CHECK_EQ(matrices_.size(), size_t{1});
  return matrices_.front().take_col_order();
}

device::Reading Linear::reading() const {
  if (matrices_.empty()) return {};
  return matrices_.front().reading(matrices_.front().num_rows());
}

void Linear::set_next(const device::Reading& next) {
  for (size_t i = 0; i < matrices_.size(); ++i) {
    const bool is_last = i + 1 == matrices_.size();
    matrices_[i].set_next(is_last ? next : matrices_[i + 1].reading(matrices_[i + 1].num_rows()));
  }
}

size_t Linear::size_bytes() const {
  size_t total = bias_.size() * sizeof(float);
  for (const kernels::PackedMatrix& matrix : matrices_) total += matrix.size_bytes();
  return total;
}

size_t Linear::workspace_bytes(int64_t num_tokens, int num_threads) const {
  size_t most = 0;
  for (const kernels::PackedMatrix& matrix : matrices_) {
    most = std::max(most, kernels::linear_workspace_bytes(matrix, num_tokens, num_threads));
  }
  return most;
}

kernels::OpTimer Linear::timer(const kernels::KernelContext& ctx, kernels::Op op,
                               int64_t num_tokens) const {
  return {ctx, op, [&] {
            kernels::OpWork sum;
            for (const kernels::PackedMatrix& matrix : matrices_) {
              const kernels::OpWork work = kernels::work_of(matrix, num_tokens);
              sum = {sum.bytes + work.bytes, sum.ops + work.ops, work.unit};
            }
            return sum;
          }};
}

bool Linear::is_summed() const {
  return placement_.split == Split::kInputs && placement_.communicator != nullptr &&
         placement_.communicator->world_size() > 1;
}

bool Linear::brings_residual() const {
  return !is_summed() || placement_.communicator->rank() == 0;
}

Status Linear::sum(float* out, int64_t num_tokens) const {
  if (!is_summed()) return {};
  return placement_.communicator->all_reduce(out, size_t(num_tokens) * size_t(num_rows_));
}

Status check_adapters(std::span<const int32_t> row_adapters) {
  if (std::ranges::all_of(row_adapters, [](int32_t adapter) { return adapter < 0; })) return {};
  return Error{Code::kUnsupported, "a row asks for an adapter, and none is loaded"};
}

Status Linear::forward(const kernels::KernelContext& ctx, float* out, const float* x,
                       int64_t num_tokens, kernels::Epilogue epilogue,
                       std::span<const int32_t> row_adapters, const kernels::RowNorm* norm) const {
  if (num_tokens == 0) return {};
  OCTAVO_TRY(check_adapters(row_adapters));
  if (!brings_residual()) epilogue = kernels::Epilogue::kStore;
  int64_t row = 0;
  for (const kernels::PackedMatrix& matrix : matrices_) {
    const float* bias = bias_.empty() || !brings_residual() ? nullptr : bias_.data() + row;
    kernels::linear(ctx, out + row, num_rows_, x, num_cols(), num_tokens, matrix, bias, epilogue,
                    norm);
    row += matrix.num_rows();
  }
  return sum(out, num_tokens);
}

Status Linear::forward_prepared(const kernels::KernelContext& ctx, float* out, const std::byte* x,
                                int64_t num_tokens, kernels::Epilogue epilogue,
                                std::span<const int32_t> row_adapters) const {
  CHECK_EQ(matrices_.size(), size_t{1});
  OCTAVO_TRY(check_adapters(row_adapters));
  if (num_tokens == 0) return {};
  if (!brings_residual()) epilogue = kernels::Epilogue::kStore;
  const float* bias = bias_.empty() || !brings_residual() ? nullptr : bias_.data();
  kernels::linear_prepared(ctx, out, num_rows_, x, num_tokens, matrices_.front(), bias, epilogue);
  return sum(out, num_tokens);
}

}  // namespace octavo::model
