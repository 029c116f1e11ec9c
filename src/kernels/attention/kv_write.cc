#include <cstring>

#include "base/check.h"
#include "kernels/attention/attention.h"
#include "kernels/linear/convert.h"

namespace octavo::kernels {
namespace {

uint16_t half_from_float(device::DType dtype, float value) {
  return dtype == device::DType::kF16 ? f16_from_float(value) : bf16_from_float(value);
}

/// One token of one head, 16-bit cache: K [head_dim / 2][16][2], V [8][head_dim][2].
void write_halves(std::byte* k_page, std::byte* v_page, int64_t offset, const float* k,
                  const float* v, int64_t head_dim, device::DType dtype) {
  std::byte* k_to = k_page + 4 * offset;
  for (int64_t d = 0; d < head_dim; d += 2, k_to += 64) {
    const uint16_t pair[2] = {half_from_float(dtype, k[d]), half_from_float(dtype, k[d + 1])};
    std::memcpy(k_to, pair, 4);
  }
  std::byte* const v_to = v_page + offset / 2 * head_dim * 4 + offset % 2 * 2;
  for (int64_t d = 0; d < head_dim; ++d) {
    const uint16_t half = half_from_float(dtype, v[d]);
    std::memcpy(v_to + 4 * d, &half, 2);
  }
}

/// The same, f32 cache: K [head_dim][16], V [16][head_dim].
void write_floats(std::byte* k_page, std::byte* v_page, int64_t offset, const float* k,
                  const float* v, int64_t head_dim) {
  for (int64_t d = 0; d < head_dim; ++d) std::memcpy(k_page + 64 * d + 4 * offset, k + d, 4);
  std::memcpy(v_page + offset * head_dim * 4, v, static_cast<size_t>(head_dim) * 4);
}

}  // namespace

size_t kv_page_bytes(device::DType dtype, int64_t num_kv_heads, int64_t head_dim) {
  return static_cast<size_t>(2 * kPageTokens * num_kv_heads * head_dim) * device::size_of(dtype);
}

void kv_write(const KernelContext& ctx, const KvLayer& layer, const float* k, const float* v,
              int64_t stride, const int64_t* slot_mapping, int64_t num_tokens) {
  CHECK_EQ(layer.head_dim % 2, 0);
  const size_t page_bytes = kv_page_bytes(layer.dtype, layer.num_kv_heads, layer.head_dim);
  const size_t head_bytes = kv_page_bytes(layer.dtype, 1, layer.head_dim);
  for (int64_t i = 0; i < num_tokens; ++i) {
    CHECK(slot_mapping[i] >= 0 && slot_mapping[i] / kPageTokens < layer.num_pages);
  }
  const auto write_heads = [&](int64_t begin, int64_t end, int) {
    for (int64_t head = begin; head < end; ++head) {
      for (int64_t i = 0; i < num_tokens; ++i) {
        const int64_t page = slot_mapping[i] / kPageTokens;
        const int64_t offset = slot_mapping[i] % kPageTokens;
        std::byte* const k_page = layer.data + static_cast<size_t>(page) * page_bytes +
                                  static_cast<size_t>(head) * head_bytes;
        std::byte* const v_page = k_page + head_bytes / 2;
        if (offset == 0) std::memset(k_page, 0, head_bytes);
        const int64_t from = i * stride + head * layer.head_dim;
        if (layer.dtype == device::DType::kF32) {
          write_floats(k_page, v_page, offset, k + from, v + from, layer.head_dim);
        } else {
          write_halves(k_page, v_page, offset, k + from, v + from, layer.head_dim, layer.dtype);
        }
      }
    }
  };
  // Tokens of a page must be written in order (the first clears it), so heads are shared out; a few
  // tokens are done before another thread is there.
  constexpr int64_t kForkElements = 8 << 10;
  const bool fork = num_tokens * layer.head_dim >= kForkElements;
  ctx.pool.parallel_for(layer.num_kv_heads, fork ? 1 : layer.num_kv_heads, write_heads);
}

}  // namespace octavo::kernels
