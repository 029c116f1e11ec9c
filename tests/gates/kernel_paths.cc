#include <cstring>
#include <vector>

#include "base/random.h"
#include "device/memory.h"
#include "device/thread_pool.h"
#include "gate.h"
#include "kernels/attention/attention.h"
#include "kernels/dispatch.h"
#include "kernels/linear/linear.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/silu_and_mul/silu_and_mul.h"

namespace octavo::gates {
namespace {

using namespace kernels;  // a program of its own

std::vector<float> values(size_t size) {
  SplitMix64 random(size);
  std::vector<float> out(size);
  for (float& x : out) x = random.uniform() - 0.5f;
  return out;
}

/// Instructions for 1,000 multiply-adds.
void count_linear(const KernelContext& ctx, WeightFormat format, int64_t num_tokens) {
  constexpr int64_t kRows = 960;
  const int64_t num_cols = block_elements(format) == 256 ? 768 : 576;
  std::vector<std::byte> rows(static_cast<size_t>(kRows) * row_bytes(format, num_cols),
                              std::byte{0x3c});
  const WeightPart part{rows.data(), format, kRows};
  const PackedMatrix weight =
      PackedMatrix::create(ctx, {&part, 1}, num_cols, format, Arithmetic::kNative).value();
  const std::vector<float> x = values(static_cast<size_t>(num_tokens * num_cols));
  std::vector<float> out(static_cast<size_t>(num_tokens * kRows));
  count("avx2_linear_" + std::string(name_of(format)) + "_" + std::to_string(num_tokens),
        "1000_multiply_adds", static_cast<double>(num_tokens * kRows * num_cols) / 1000, [&] {
          linear(ctx, out.data(), kRows, x.data(), num_cols, num_tokens, weight, nullptr,
                 Epilogue::kStore);
        });
}

/// Instructions for a (query, key, head) that is not masked; 9 heads of 64 over 3 of the cache. And
/// for a token written, where many are.
void count_attention(const KernelContext& ctx, device::DType dtype, const std::string& name,
                     int64_t num_queries, int64_t num_keys) {
  constexpr int64_t kHeads = 9, kKvHeads = 3, kDim = 64;
  const int64_t num_pages = num_keys / kPageTokens;
  const std::string suffix =
      dtype == device::DType::kBF16 ? "" : "_" + std::string(device::name_of(dtype));
  const device::Buffer cache =
      device::Buffer::create(static_cast<size_t>(num_pages) * kv_page_bytes(dtype, kKvHeads, kDim),
                             true)
          .value();
  const KvLayer layer{cache.data(), dtype, num_pages, kKvHeads, kDim};
  const std::vector<float> kv = values(static_cast<size_t>(num_keys * kKvHeads * kDim));
  std::vector<int64_t> slots(static_cast<size_t>(num_keys));
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i);
  const auto write = [&] {
    kv_write(ctx, layer, {kv.data(), kv.data(), kKvHeads * kDim, slots.data()}, num_keys);
  };
  if (num_queries > 1) {
    count("avx2_kv_write" + suffix, "token", static_cast<double>(num_keys), write);
  } else {
    write();
  }
  std::vector<int32_t> table(static_cast<size_t>(num_pages));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
  const int32_t starts[] = {0, static_cast<int32_t>(num_queries)};
  const auto length = static_cast<int32_t>(num_keys);
  const AttentionBatch batch{1, starts, &length, table.data(), num_pages, kPageTokens};
  AttentionParams params;
  params.num_heads = kHeads;
  params.scale = 0.125f;
  const std::vector<float> q = values(static_cast<size_t>(num_queries * kHeads * kDim));
  std::vector<float> out(q.size());
  double pairs = 0;
  for (int64_t i = 0; i < num_queries; ++i) pairs += static_cast<double>(num_keys - i);
  count("avx2_attention_" + name + suffix, "query_key_head", pairs * kHeads, [&] {
    attention(ctx, out.data(), kHeads * kDim, q.data(), kHeads * kDim, layer, batch, params);
  });
}

}  // namespace

void count_kernel_paths() {
  if (!set_isa(Isa::kAvx2).ok()) {
    std::printf("skipped kernels: this CPU has no AVX2\n");
    return;
  }
  device::ThreadPool pool(1);
  device::Workspace workspace;
  workspace.reserve(size_t{64} << 20).value();
  const KernelContext ctx{pool, workspace};
  for (const WeightFormat format :
       {WeightFormat::kQ4_1, WeightFormat::kQ8_0, WeightFormat::kBF16, WeightFormat::kQ5_0,
        WeightFormat::kQ4_K, WeightFormat::kQ6_K}) {
    count_linear(ctx, format, 1);
    count_linear(ctx, format, 32);
  }
  for (const device::DType dtype : {device::DType::kBF16, device::DType::kE4M3}) {
    count_attention(ctx, dtype, "decode", 1, 512);
    count_attention(ctx, dtype, "prefill", 128, 128);
  }
  constexpr int64_t kRows = 32, kCols = 1536;
  const std::vector<float> x = values(2 * kRows * kCols);
  std::vector<float> out(kRows * kCols);
  count("avx2_rms_norm", "1000_elements", kRows * kCols / 1000.0,
        [&] { rms_norm(ctx, out.data(), kCols, x.data(), kCols, kRows, kCols, x.data(), 1e-5f); });
  count("avx2_silu_and_mul", "1000_elements", kRows * kCols / 1000.0,
        [&] { silu_and_mul(out.data(), x.data(), x.data() + kRows * kCols, kRows * kCols); });
}

}  // namespace octavo::gates
