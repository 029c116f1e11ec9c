#include "kernels/embedding/embedding.h"

#include <cstring>

#include "base/check.h"
#include "kernels/embedding/block_rows.h"
#include "kernels/linear/convert.h"
#include "kernels/linear/linear_params.h"

namespace octavo::kernels {
namespace {

float load_f16(const std::byte* p) {
  uint16_t half;
  std::memcpy(&half, p, 2);
  return float_from_f16(half);
}

/// Lane `lane` of a panel of one float format: elements `step_bytes` apart.
void widen_float_row(float* out, const std::byte* panel, int lane, int64_t num_cols,
                     WeightFormat format) {
  for (int64_t k = 0; k < num_cols; ++k) {
    int64_t index = k * kPanelRows + lane;
    if (format == WeightFormat::kBF16) index = (k / 2 * kPanelRows + lane) * 2 + k % 2;
    out[k] = load_element(format, panel, index);
  }
}

/// Lane `lane` of a panel of blocks; layouts in linear_params.h.
void widen_block_row(float* out, const std::byte* panel, int lane, int64_t num_cols,
                     WeightFormat format) {
  const bool has_min = format == WeightFormat::kQ4_1;
  const bool nibbles = format != WeightFormat::kQ8_0;
  const size_t scale_bytes = has_min ? 64 : 32;
  for (int64_t b = 0; b < num_cols / kQuantBlock; ++b, out += kQuantBlock) {
    const float d = load_f16(panel + 2 * lane);
    const float offset =
        has_min ? load_f16(panel + 32 + 2 * lane) : d * (nibbles ? -8.0f : -128.0f);
    const std::byte* const quants = panel + scale_bytes + 4 * lane;
    for (int l = 0; l < (nibbles ? 4 : 8); ++l) {
      for (int j = 0; j < 4; ++j) {
        const auto q = static_cast<uint32_t>(quants[64 * l + j]);
        if (nibbles) {
          out[4 * l + j] = static_cast<float>(q & 15) * d + offset;
          out[16 + 4 * l + j] = static_cast<float>(q >> 4) * d + offset;
        } else {
          out[4 * l + j] = static_cast<float>(q) * d + offset;
        }
      }
    }
    panel += scale_bytes + (nibbles ? 256 : 512);
  }
}

using WidenRow = void (*)(float* out, const std::byte* panel, int lane, int64_t num_cols,
                          WeightFormat format);

WidenRow widen_row(WeightFormat format) {
  if (format >= WeightFormat::kQ5_0) return widen_packed_block_row;
  return format >= WeightFormat::kQ8_0 ? widen_block_row : widen_float_row;
}

}  // namespace

void embedding(const KernelContext& ctx, float* out, const int32_t* ids, int64_t num_tokens,
               const PackedMatrix& table) {
  if (num_tokens <= 0) return;
  const int64_t num_cols = table.num_cols();
  const int64_t num_panels = (table.num_rows() + kPanelRows - 1) / kPanelRows;
  CHECK_GT(num_panels, 0);
  const size_t panel_bytes = table.size_bytes() / static_cast<size_t>(num_panels);
  constexpr int64_t kGrain = 16;  // rows: some microseconds of work
  ctx.pool.parallel_for(num_tokens, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int32_t id = ids[i];
      CHECK(id >= 0 && id < table.num_rows());
      const std::byte* panel = table.data() + static_cast<size_t>(id / kPanelRows) * panel_bytes;
      widen_row(table.format())(out + i * num_cols, panel, id % kPanelRows, num_cols,
                                table.format());
    }
  });
}

}  // namespace octavo::kernels
