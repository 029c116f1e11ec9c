#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/linear/linear.h"
#include "kernels/profile.h"
#include "model/communicator.h"

namespace octavo::model {

/// How a matrix is divided among ranks: not, by outputs (q/k/v, gate/up), or by inputs (o, down),
/// in which case the product must be summed over the ranks.
enum class Split { kNone, kOutputs, kInputs };

struct LinearPlacement {
  Split split = Split::kNone;
  Communicator* communicator = nullptr;  // outlives the layer
};

/// kUnsupported when a row has an adapter (>= 0): none can be loaded yet.
Status check_adapters(std::span<const int32_t> row_adapters);

/// out = x W^T + b. One packed matrix where its parts (q, k, v) share a format, else one per run of
/// equal formats, side by side in `out`.
class Linear {
 public:
  Linear() = default;
  /// `bias` is [num_rows of all matrices] or empty.
  Linear(std::vector<kernels::PackedMatrix> matrices, std::vector<float> bias,
         LinearPlacement placement);

  int64_t num_rows() const { return num_rows_; }
  int64_t num_cols() const { return matrices_.empty() ? 0 : matrices_.front().num_cols(); }
  size_t size_bytes() const;
  const std::vector<kernels::PackedMatrix>& matrices() const { return matrices_; }

  const std::vector<float>& bias() const { return bias_; }

  /// What a product reads first.
  device::Reading reading() const;
  /// What a step reads after this layer; nothing: somebody else says so.
  void set_next(const device::Reading& next);

  /// The order of columns of the only matrix; from now on whoever gives x keeps to it.
  std::vector<int32_t> take_col_order();

  /// Scratch of `forward`, bytes.
  size_t workspace_bytes(int64_t num_tokens, int num_threads) const;

  /// Adds the time until the end of its scope to `op`.
  kernels::OpTimer timer(const kernels::KernelContext& ctx, kernels::Op op,
                         int64_t num_tokens) const;

  ///   out  [num_tokens, num_rows()] contiguous;  x  [num_tokens, num_cols()] contiguous
  ///   norm  of the rows of x, or nullptr
  ///   row_adapters  [num_tokens] the adapter whose product each row adds, -1 = none; or empty
  /// kUnsupported for a row with an adapter: none can be loaded yet.
  Status forward(const kernels::KernelContext& ctx, float* out, const float* x, int64_t num_tokens,
                 kernels::Epilogue epilogue, std::span<const int32_t> row_adapters = {},
                 const kernels::RowNorm* norm = nullptr) const;

  /// The same with rows that another op left as `matrices().front()`, the only one, reads them.
  Status forward_prepared(const kernels::KernelContext& ctx, float* out, const std::byte* x,
                          int64_t num_tokens, kernels::Epilogue epilogue,
                          std::span<const int32_t> row_adapters = {}) const;

 private:
  bool is_summed() const;
  /// The residual and the bias must enter a sum over ranks once: rank 0 brings them.
  bool brings_residual() const;
  Status sum(float* out, int64_t num_tokens) const;

  std::vector<kernels::PackedMatrix> matrices_;
  std::vector<float> bias_;
  LinearPlacement placement_;
  int64_t num_rows_ = 0;
};

}  // namespace octavo::model
