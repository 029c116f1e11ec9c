#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_params.h"

namespace octavo::kernels {
namespace {

/// Tokens of a task.
constexpr int64_t kTokensPerTask = 64;

int64_t page_of(const int64_t* slots, int64_t i) { return slots[i] / kPageTokens; }

}  // namespace

size_t kv_page_bytes(device::DType dtype, int64_t num_kv_heads, int64_t head_dim) {
  return static_cast<size_t>(2 * kPageTokens * num_kv_heads * head_dim) * device::size_of(dtype);
}

void kv_write(const KernelContext& ctx, const KvLayer& layer, const float* k, const float* v,
              int64_t stride, const int64_t* slot_mapping, int64_t num_tokens) {
  CHECK_EQ(layer.head_dim % 2, 0);
  const AttentionKernels& kernels = attention_kernels_of(layer.dtype);
  const size_t page_bytes = kv_page_bytes(layer.dtype, layer.num_kv_heads, layer.head_dim);
  const size_t head_bytes = kv_page_bytes(layer.dtype, 1, layer.head_dim);
  for (int64_t i = 0; i < num_tokens; ++i) {
    CHECK(slot_mapping[i] >= 0 && page_of(slot_mapping, i) < layer.num_pages);
  }
  const auto write = [&](int64_t token, int64_t head) {
    const int64_t offset = slot_mapping[token] % kPageTokens;
    std::byte* const k_page = layer.data +
                              static_cast<size_t>(page_of(slot_mapping, token)) * page_bytes +
                              static_cast<size_t>(head) * head_bytes;
    if (offset == 0) std::memset(k_page, 0, head_bytes);
    const int64_t from = token * stride + head * layer.head_dim;
    kernels.write_token(k_page, k_page + head_bytes / 2, offset, k + from, v + from,
                        layer.head_dim);
  };
  // Tokens of a page lie side by side and must be written in order (the first clears it): a task
  // leaves the rest of a page to the task before and ends with the end of its last one.
  const auto continues_page = [&](int64_t token) {
    return token > 0 && token < num_tokens &&
           page_of(slot_mapping, token) == page_of(slot_mapping, token - 1);
  };
  const int64_t num_chunks = (num_tokens + kTokensPerTask - 1) / kTokensPerTask;
  ctx.pool.parallel_for(num_chunks * layer.num_kv_heads, num_chunks == 1 ? layer.num_kv_heads : 1,
                        [&](int64_t begin, int64_t end, int) {
                          for (int64_t task = begin; task < end; ++task) {
                            const int64_t head = task % layer.num_kv_heads;
                            int64_t token = task / layer.num_kv_heads * kTokensPerTask;
                            const int64_t token_end = std::min(token + kTokensPerTask, num_tokens);
                            while (continues_page(token)) ++token;
                            for (; token < token_end || (token > 0 && continues_page(token));
                                 ++token) {
                              write(token, head);
                            }
                          }
                        });
}

}  // namespace octavo::kernels
