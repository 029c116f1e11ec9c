#pragma once

#include <cstdint>

namespace octavo::kernels {

/// The two halves of the norm of a row; arguments as in rms_norm.h.
struct RmsNormKernels {
  /// 1 / sqrt(mean(x^2) + eps)
  float (*factor)(const float* x, int64_t num_cols, float eps);
  /// out = x * factor * weight, of any piece of the row; out may be x
  void (*scale)(float* out, const float* x, const float* weight, int64_t num_cols, float factor);
};

/// The chosen variant.
const RmsNormKernels& current_rms_norm_kernels();

namespace generic {
extern const RmsNormKernels kRmsNorm;
}
namespace avx2 {
extern const RmsNormKernels kRmsNorm;
}
namespace avx512_core {
extern const RmsNormKernels kRmsNorm;
}

}  // namespace octavo::kernels
