#include "device/roofs.h"

#include <algorithm>
#include <atomic>
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

uint64_t read_plain(const std::byte* data, size_t size) {
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

#if defined(__x86_64__)
// Whole registers and nothing done with them: from the caches the sums of `read_plain` would be the
// limit.
void read_512(const std::byte* data, size_t size) {
  for (const std::byte* end = data + size / 512 * 512; data != end; data += 512) {
    asm volatile(
        "vmovups (%0), %%zmm0\nvmovups 64(%0), %%zmm1\nvmovups 128(%0), %%zmm2\n"
        "vmovups 192(%0), %%zmm3\nvmovups 256(%0), %%zmm4\nvmovups 320(%0), %%zmm5\n"
        "vmovups 384(%0), %%zmm6\nvmovups 448(%0), %%zmm7\n" ::"r"(data)
        : "memory", OCTAVO_CLOBBERS);
  }
}
void read_256(const std::byte* data, size_t size) {
  for (const std::byte* end = data + size / 256 * 256; data != end; data += 256) {
    asm volatile(
        "vmovups (%0), %%ymm0\nvmovups 32(%0), %%ymm1\nvmovups 64(%0), %%ymm2\n"
        "vmovups 96(%0), %%ymm3\nvmovups 128(%0), %%ymm4\nvmovups 160(%0), %%ymm5\n"
        "vmovups 192(%0), %%ymm6\nvmovups 224(%0), %%ymm7\n" ::"r"(data)
        : "memory", OCTAVO_CLOBBERS);
  }
}
#endif

/// Reads every byte of a multiple of 512; the value keeps compilers from leaving it out.
uint64_t read_range(const std::byte* data, size_t size) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) {
    read_512(data, size);
    return 0;
  }
  if (__builtin_cpu_supports("avx")) {
    read_256(data, size);
    return 0;
  }
#endif
  return read_plain(data, size);
}

/// Best of some: a roof is what the machine can do.
template <class F>
double best_seconds(bool cpu_time, int passes, F f) {
  double best = 1e30;
  for (int i = 0; i < passes; ++i) {
    const double start = now_seconds(cpu_time);
    f();
    best = std::min(best, now_seconds(cpu_time) - start);
  }
  return best;
}
constexpr int kPasses = 5;
/// Of the arithmetic loops, which take some 50 us: in all longer than another process's turn on one
/// of the cores, which would halve all of a few passes.
constexpr int kSpinPasses = 200;

}  // namespace

double now_seconds(bool cpu_time) {
  timespec time;
  clock_gettime(cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double measure_read(ThreadPool& pool, const std::byte* buffer, size_t size_bytes, int passes) {
  std::atomic<uint64_t> sink = 0;  // what is read has a use
  constexpr int64_t kPiece = 1 << 20;
  const auto pieces = static_cast<int64_t>(size_bytes) / kPiece;
  const double seconds = best_seconds(pool.num_threads() == 1, passes, [&] {
    pool.parallel_for(pieces, 4, [&](int64_t begin, int64_t end, int) {
      sink.fetch_add(
          read_range(buffer + begin * kPiece, static_cast<size_t>((end - begin) * kPiece)),
          std::memory_order_relaxed);
    });
  });
  return static_cast<double>(pieces * kPiece) / 1e9 / seconds;
}

double measure_cached_read(ThreadPool& pool, const std::byte* buffer, size_t bytes_per_thread) {
  std::atomic<uint64_t> sink = 0;
  constexpr size_t kReadBytes = size_t{256} << 20;  // by each thread: some milliseconds
  const size_t rounds = std::max<size_t>(kReadBytes / std::max<size_t>(bytes_per_thread, 1), 1);
  const int64_t threads = pool.num_threads();
  const double seconds = best_seconds(threads == 1, kPasses, [&] {
    pool.parallel_for(threads, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t part = begin; part < end; ++part) {
        const std::byte* own = buffer + static_cast<size_t>(part) * bytes_per_thread;
        uint64_t sum = 0;
        for (size_t i = 0; i < rounds; ++i) sum += read_range(own, bytes_per_thread);
        sink.fetch_add(sum, std::memory_order_relaxed);
      }
    });
  });
  return static_cast<double>(threads) * static_cast<double>(rounds * bytes_per_thread) / 1e9 /
         seconds;
}

Roofs measure_roofs(ThreadPool& pool, const std::byte* buffer, size_t size_bytes) {
  Roofs roofs;
  const int64_t threads = pool.num_threads();
  roofs.read_gb_s = measure_read(pool, buffer, size_bytes, kPasses);
#if defined(__x86_64__)
  const auto rate = [&](void (*spin)(), double ops) {
    return static_cast<double>(threads) * 12 * kInner * ops / 1e9 /
           best_seconds(threads == 1, kSpinPasses, [&] {
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
