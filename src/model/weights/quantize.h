#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/linear/linear.h"
#include "model/weights/weight_source.h"

namespace octavo::model {

/// The largest group of 128, 64 or 32 columns that divides `size`; 0 when none does.
int64_t group_of(int64_t size);

/// The e4m3 code of `value`: nearest, ties to even, beyond 448 that.
uint8_t e4m3_from_float(float value);

/// Rounds a float matrix [num_rows, num_cols] to `format`: Q8_0, Q4_1 (both GGUF's rules, with the
/// scale rounded before it divides) or F8G* (one scale a row, largest magnitude / 448). Errors name
/// `module`: a value that is not finite, or too large for the format's scales.
Result<SourceTensor> quantise(const SourceTensor& tensor, int64_t num_rows, int64_t num_cols,
                              kernels::WeightFormat format, const std::string& module,
                              device::ThreadPool& pool);

}  // namespace octavo::model
