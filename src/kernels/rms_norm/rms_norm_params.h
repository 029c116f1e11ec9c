#pragma once

#include <cstdint>

namespace octavo::kernels {

/// Norms one row; arguments as in rms_norm.h.
using RmsNormRun = void (*)(float* out, const float* x, const float* weight, int64_t num_cols,
                            float eps);

namespace generic {
extern const RmsNormRun kRmsNorm;
}
namespace avx2 {
extern const RmsNormRun kRmsNorm;
}
namespace avx512 {
extern const RmsNormRun kRmsNorm;
}

}  // namespace octavo::kernels
