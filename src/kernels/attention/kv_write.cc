#include <algorithm>

#include "base/check.h"
#include "kernels/attention/kv_writer.h"
#include "kernels/attention/rotate_impl.h"

namespace octavo::kernels {
namespace {

/// Tokens of a task.
constexpr int64_t kTokensPerTask = 64;

}  // namespace

size_t kv_page_bytes(device::DType dtype, int64_t num_kv_heads, int64_t head_dim) {
  return static_cast<size_t>(2 * kPageTokens * num_kv_heads * head_dim) * device::size_of(dtype);
}

float rotated_key_growth(int64_t head_dim) {
  const int64_t dims = rotation_dims(head_dim);
  return static_cast<float>(dims) * key_rotation_factor(dims);
}

void kv_write(const KernelContext& ctx, const KvLayer& layer, const KvTokens& tokens,
              int64_t num_tokens) {
  CHECK_EQ(layer.head_dim % 2, 0);
  const KvWriter writer(layer, tokens);
  for (int64_t i = 0; i < num_tokens; ++i) {
    CHECK(tokens.slot_mapping[i] >= 0 && writer.page(i) < layer.num_pages);
  }
  // Tokens of a page lie side by side and must be written in order (the first clears it): a task
  // leaves the rest of a page to the task before and ends with the end of its last one.
  const auto continues_page = [&](int64_t token) {
    return token > 0 && token < num_tokens && writer.page(token) == writer.page(token - 1);
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
                              writer.write(token, head);
                            }
                          }
                        });
}

}  // namespace octavo::kernels
