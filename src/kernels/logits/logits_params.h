#pragma once

#include <cstdint>

// What logits.cc hands to the variants: plain data, safe to include where ISA flags are set.

namespace octavo::kernels {

struct LogitsKernels {
  /// Sets max, argmax; false when the row is no distribution.
  bool (*scan)(const float* row, int64_t size, float* max, int32_t* argmax);
  /// `out` may be nullptr: only the sum is wanted.
  double (*exp)(float* out, const float* row, int64_t size, float max, float inverse_temperature);
  int32_t (*count_at_least)(const float* row, int64_t size, float threshold);
  int64_t (*ids_at_least)(const float* row, int64_t size, float threshold, int32_t* ids,
                          int64_t capacity);
  void (*block_maxima)(const float* row, int64_t size, float* out);
};

namespace generic {
extern const LogitsKernels kLogits;
}
namespace avx2 {
extern const LogitsKernels kLogits;
}
namespace avx512_core {
extern const LogitsKernels kLogits;
}

}  // namespace octavo::kernels
