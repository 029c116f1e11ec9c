#include "device/roofs.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ctime>

namespace octavo::device {
namespace {

constexpr int kInner = 20000;

#if defined(__x86_64__)
// In assembler: compilers hoist and reorder what a peak test is made of. 12 independent chains
// cover the latency of two pipes; no flags are needed for these instructions in asm.
#define OCTAVO_TWELVE(op, r)                                                                  \
  op " %%" r "13, %%" r "12, %%" r "0\n" op " %%" r "13, %%" r "12, %%" r "1\n" op " %%" r    \
     "13, %%" r "12, %%" r "2\n" op " %%" r "13, %%" r "12, %%" r "3\n" op " %%" r "13, %%" r \
     "12, %%" r "4\n" op " %%" r "13, %%" r "12, %%" r "5\n" op " %%" r "13, %%" r "12, %%" r \
     "6\n" op " %%" r "13, %%" r "12, %%" r "7\n" op " %%" r "13, %%" r "12, %%" r "8\n" op   \
     " %%" r "13, %%" r "12, %%" r "9\n" op " %%" r "13, %%" r "12, %%" r "10\n" op " %%" r   \
     "13, %%" r "12, %%" r "11\n"
#define OCTAVO_CLOBBERS                                                                    \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
      "xmm11", "xmm12", "xmm13"
// Zeroed first: a stale subnormal would cost Intel's FMA a hundred cycles.
#define OCTAVO_ZERO(r)                                                                         \
  "vpxor %%xmm12, %%xmm12, %%xmm12\nvpxor %%xmm13, %%xmm13, %%xmm13\n"                         \
  "vpxor %%xmm0, %%xmm0, %%xmm0\nvpxor %%xmm1, %%xmm1, %%xmm1\nvpxor %%xmm2, %%xmm2, %%xmm2\n" \
  "vpxor %%xmm3, %%xmm3, %%xmm3\nvpxor %%xmm4, %%xmm4, %%xmm4\nvpxor %%xmm5, %%xmm5, %%xmm5\n" \
  "vpxor %%xmm6, %%xmm6, %%xmm6\nvpxor %%xmm7, %%xmm7, %%xmm7\nvpxor %%xmm8, %%xmm8, %%xmm8\n" \
  "vpxor %%xmm9, %%xmm9, %%xmm9\nvpxor %%xmm10, %%xmm10, %%xmm10\n"                            \
  "vpxor %%xmm11, %%xmm11, %%xmm11\n"

void spin_int8() {
  asm volatile(OCTAVO_ZERO()::: OCTAVO_CLOBBERS);
  for (int i = 0; i < kInner; ++i)
    asm volatile(OCTAVO_TWELVE("vpdpbusd", "zmm")::: OCTAVO_CLOBBERS);
}
void spin_bf16() {
  asm volatile(OCTAVO_ZERO()::: OCTAVO_CLOBBERS);
  for (int i = 0; i < kInner; ++i) {
    asm volatile(OCTAVO_TWELVE("vdpbf16ps", "zmm")::: OCTAVO_CLOBBERS);
  }
}
void spin_f32_512() {
  asm volatile(OCTAVO_ZERO()::: OCTAVO_CLOBBERS);
  for (int i = 0; i < kInner; ++i) {
    asm volatile(OCTAVO_TWELVE("vfmadd213ps", "zmm")::: OCTAVO_CLOBBERS);
  }
}
void spin_f32_256() {
  asm volatile(OCTAVO_ZERO()::: OCTAVO_CLOBBERS);
  for (int i = 0; i < kInner; ++i) {
    asm volatile(OCTAVO_TWELVE("vfmadd213ps", "ymm")::: OCTAVO_CLOBBERS);
  }
}
#endif

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
    const double start = now_seconds(cpu_time);
    f();
    best = std::min(best, now_seconds(cpu_time) - start);
  }
  return best;
}

}  // namespace

double now_seconds(bool cpu_time) {
  timespec time;
  clock_gettime(cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Roofs measure_roofs(ThreadPool& pool, const std::byte* buffer, size_t size_bytes) {
  Roofs roofs;
  const int64_t threads = pool.num_threads();
  volatile uint64_t sink = 0;
  constexpr int64_t kPiece = 1 << 20;
  const auto pieces = static_cast<int64_t>(size_bytes) / kPiece;
  roofs.read_gb_s = static_cast<double>(pieces * kPiece) / 1e9 / best_seconds(threads == 1, [&] {
                      pool.parallel_for(pieces, 4, [&](int64_t begin, int64_t end, int) {
                        sink = sink + read_range(buffer + begin * kPiece,
                                                 static_cast<size_t>((end - begin) * kPiece));
                      });
                    });
#if defined(__x86_64__)
  const auto rate = [&](void (*spin)(), double ops) {
    return static_cast<double>(threads) * 12 * kInner * ops / 1e9 / best_seconds(threads == 1, [&] {
             pool.parallel_for(threads, 1, [&](int64_t, int64_t, int) { spin(); });
           });
  };
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) {
    roofs.f32_gflop_s = rate(spin_f32_512, 32);
  } else if (__builtin_cpu_supports("fma")) {
    roofs.f32_gflop_s = rate(spin_f32_256, 16);
  }
  if (__builtin_cpu_supports("avx512vnni")) roofs.int8_gop_s = rate(spin_int8, 128);
  if (__builtin_cpu_supports("avx512bf16")) roofs.bf16_gflop_s = rate(spin_bf16, 64);
#endif
  return roofs;
}

}  // namespace octavo::device
