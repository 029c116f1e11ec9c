#pragma once

#include <vector>

#include "kernels/linear/linear.h"
#include "kernels/rms_norm/rms_norm.h"

namespace octavo::model {

/// Root-mean-square norm with its weight.
class RmsNorm {
 public:
  RmsNorm() = default;
  RmsNorm(std::vector<float> weight, double eps) : weight_(std::move(weight)), eps_(float(eps)) {}

  int64_t size() const { return int64_t(weight_.size()); }
  size_t size_bytes() const { return weight_.size() * sizeof(float); }

  /// For the product that reads the rows; valid as long as this layer.
  kernels::RowNorm row_norm() const { return {weight_.data(), eps_}; }

  /// Norms in place every head of a token by itself:
  ///   x  [num_tokens, num_heads, size()], rows `stride` apart
  /// The kernel takes evenly spaced rows, and heads of a token and tokens of a head both are; the
  /// dimension with fewer calls is walked here. A row's result is the same either way.
  void forward_heads(const kernels::KernelContext& ctx, float* x, int64_t stride,
                     int64_t num_tokens, int64_t num_heads) const {
    if (num_tokens <= num_heads) {
      for (int64_t token = 0; token < num_tokens; ++token) {
        float* heads = x + token * stride;
        kernels::rms_norm(ctx, heads, size(), heads, size(), num_heads, size(), weight_.data(),
                          eps_);
      }
      return;
    }
    for (int64_t head = 0; head < num_heads; ++head) {
      float* column = x + head * size();
      kernels::rms_norm(ctx, column, stride, column, stride, num_tokens, size(), weight_.data(),
                        eps_);
    }
  }

 private:
  std::vector<float> weight_;
  float eps_ = 1e-6f;
};

}  // namespace octavo::model
