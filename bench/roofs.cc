#include "bench/roofs.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "kernels/dispatch.h"

namespace octavo::bench {
namespace {

constexpr int kInner = 20000;

// In assembler: compilers hoist and reorder what a peak test is made of. 12 independent chains cover
// the latency of two pipes; no flags are needed for these instructions in asm.
#define OCTAVO_TWELVE(op)                                                                       \
  op " %%zmm13, %%zmm12, %%zmm0\n" op " %%zmm13, %%zmm12, %%zmm1\n"                             \
  op " %%zmm13, %%zmm12, %%zmm2\n" op " %%zmm13, %%zmm12, %%zmm3\n"                             \
  op " %%zmm13, %%zmm12, %%zmm4\n" op " %%zmm13, %%zmm12, %%zmm5\n"                             \
  op " %%zmm13, %%zmm12, %%zmm6\n" op " %%zmm13, %%zmm12, %%zmm7\n"                             \
  op " %%zmm13, %%zmm12, %%zmm8\n" op " %%zmm13, %%zmm12, %%zmm9\n"                             \
  op " %%zmm13, %%zmm12, %%zmm10\n" op " %%zmm13, %%zmm12, %%zmm11\n"
#define OCTAVO_CLOBBERS                                                                        \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",     \
      "xmm11", "xmm12", "xmm13"

void spin_int8() {
  for (int i = 0; i < kInner; ++i) asm volatile(OCTAVO_TWELVE("vpdpbusd")::: OCTAVO_CLOBBERS);
}
void spin_bf16() {
  for (int i = 0; i < kInner; ++i) asm volatile(OCTAVO_TWELVE("vdpbf16ps")::: OCTAVO_CLOBBERS);
}

uint64_t read_range(const std::byte* data, size_t size) {
  uint64_t sum[8] = {};
  for (size_t i = 0; i + 64 <= size; i += 64) {
    uint64_t line[8];
    std::memcpy(line, data + i, 64);
    for (int j = 0; j < 8; ++j) sum[j] += line[j];
  }
  uint64_t total = 0;
  for (const uint64_t s : sum) total += s;
  return total;
}

/// Best of five: a roof is what the machine can do.
template <class F>
double best_seconds(bool cpu_time, F f) {
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    const double start = now(cpu_time);
    f();
    best = std::min(best, now(cpu_time) - start);
  }
  return best;
}

}  // namespace

double now(bool cpu_time) {
  timespec time;
  clock_gettime(cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Roofs measure_roofs(device::ThreadPool& pool, const std::byte* buffer, size_t size_bytes) {
  Roofs roofs;
  const int64_t threads = pool.num_threads();
  volatile uint64_t sink = 0;
  constexpr int64_t kPiece = 1 << 20;
  const auto pieces = static_cast<int64_t>(size_bytes) / kPiece;
  roofs.read_gb_s = static_cast<double>(pieces * kPiece) / 1e9 / best_seconds(threads == 1, [&] {
    pool.parallel_for(pieces, 4, [&](int64_t begin, int64_t end, int) {
      sink = sink + read_range(buffer + begin * kPiece, static_cast<size_t>((end - begin) * kPiece));
    });
  });
  if (kernels::best_isa() != kernels::Isa::kAvx512) return roofs;
  const auto rate = [&](void (*spin)(), double ops) {
    return static_cast<double>(threads) * 12 * kInner * ops / 1e9 / best_seconds(threads == 1, [&] {
             pool.parallel_for(threads, 1, [&](int64_t, int64_t, int) { spin(); });
           });
  };
  roofs.int8_gop_s = rate(spin_int8, 128);
  roofs.bf16_gflop_s = rate(spin_bf16, 64);
  return roofs;
}

}  // namespace octavo::bench
