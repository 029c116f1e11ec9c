#pragma once

#include <cstddef>

#include "device/thread_pool.h"

namespace octavo::device {

/// What the machine can do at this moment, on all threads of the pool. Measured, not looked up:
/// neighbours on the same host and the clock change it by the minute.
struct Roofs {
  double read_gb_s = 0;     // sequential reading of `buffer`
  double f32_gflop_s = 0;   // FMAs on registers
  double int8_gop_s = 0;    // vpdpbusd on registers; 0 where the CPU lacks it in 512 bits
  double bf16_gflop_s = 0;  // vdpbf16ps on registers; 0 where the CPU lacks it
};

/// Sequential reading of `buffer` on all threads in pieces of 1 MiB, GB/s; best of `passes`.
double measure_read(ThreadPool& pool, const std::byte* buffer, size_t size_bytes, int passes);

/// Each thread reads `bytes_per_thread` of its own part of `buffer` again and again: what a cache
/// of that size gives, GB/s of all threads together. A multiple of 1 KiB; `buffer` has it for each
/// thread.
double measure_cached_read(ThreadPool& pool, const std::byte* buffer, size_t bytes_per_thread);

/// Takes about 20 ms of each thread beside reading `buffer` five times.
Roofs measure_roofs(ThreadPool& pool, const std::byte* buffer, size_t size_bytes);

/// Seconds: on a steady clock, or of the calling thread's CPU time, which on one thread is the
/// better measure where other programs share the core.
double now_seconds(bool cpu_time);

}  // namespace octavo::device
