#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "device/machine.h"
#include "device/memory.h"
#include "device/roofs.h"
#include "device/thread_pool.h"

namespace octavo::device {
namespace {

TEST(ThreadPool, RunsEveryPieceOnce) {
  for (const int num_threads : {1, 2, 3, 7}) {
    ThreadPool pool(num_threads);
    EXPECT_EQ(pool.num_threads(), num_threads);
    for (const int64_t count : {0, 1, 2, 5, 64, 1000}) {
      for (const int64_t grain : {0, 1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
        pool.parallel_for(count, grain, [&](int64_t begin, int64_t end, int thread) {
          EXPECT_GE(thread, 0);
          EXPECT_LT(thread, num_threads);
          EXPECT_LE(end - begin, std::max<int64_t>(grain, 1));
          for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
        });
        for (const auto& hit : hits) ASSERT_EQ(hit.load(), 1);
      }
    }
  }
}

TEST(ThreadPool, AThreadBeginsWithItsOwnNeighbours) {
  constexpr int kThreads = 4;
  constexpr int64_t kPieces = 10;
  ThreadPool pool(kThreads);
  std::vector<int64_t> first(kThreads, -1);
  std::atomic<int> num_started{0};
  pool.parallel_for(kPieces, 1, [&](int64_t begin, int64_t, int thread) {
    if (first[static_cast<size_t>(thread)] >= 0) return;
    first[static_cast<size_t>(thread)] = begin;
    ++num_started;
    while (num_started.load() < kThreads) std::this_thread::yield();
  });
  EXPECT_EQ(first, (std::vector<int64_t>{0, 2, 5, 7}));
}

TEST(ThreadPool, TheOthersTakeWhatASlowThreadHasLeft) {
  ThreadPool pool(2);
  // Its first piece ends when all others are done, so those of its run go to the other thread.
  std::atomic<int> num_done{0};
  pool.parallel_for(8, 1, [&](int64_t begin, int64_t, int) {
    while (begin == 0 && num_done.load() < 7) std::this_thread::yield();
    ++num_done;
  });
  EXPECT_EQ(num_done.load(), 8);
}

TEST(ThreadPool, WhatIsReadNextChangesNothing) {
  ThreadPool pool(3);
  const std::vector<std::byte> data(100000);
  for (int64_t round = 0; round < 300; ++round) {
    // Also nothing, less than a part for each thread, and what has been freed.
    pool.read_next(
        {round % 5 == 0 ? nullptr : data.data(), static_cast<size_t>(round * 7), round % 4});
    if (round % 7 == 0) {
      const std::vector<std::byte> freed(1 << 20);
      pool.read_next({freed.data(), size_t{1} << 14, 64});
    }
    if (round % 6 == 0) {
      const std::vector<const std::byte*> pages(static_cast<size_t>(round % 40), data.data());
      device::Reading scattered{.part_bytes = 640, .num_parts = round % 40, .parts_of_piece = 4};
      scattered.part_at = [](const void* context, int64_t part) {
        return (*static_cast<const std::vector<const std::byte*>*>(context)).at(size_t(part));
      };
      scattered.context = &pages;
      pool.read_next(scattered);
      pool.parallel_for(2, 1 + round % 2, [](int64_t, int64_t, int) {});
    }
    std::atomic<int64_t> sum{0};
    pool.parallel_for(10, 1, [&](int64_t begin, int64_t, int) { sum += begin; });
    ASSERT_EQ(sum.load(), 45);
  }
}

TEST(ThreadPool, AJobSeesWhatTheCallerWroteAndTheCallerWhatTheJobWrote) {
  ThreadPool pool(4);
  std::vector<int64_t> values(256);
  for (int64_t round = 0; round < 3000; ++round) {
    pool.parallel_for(256, 8, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) values[static_cast<size_t>(i)] += i;
    });
    ASSERT_EQ(values[255], 255 * (round + 1));
  }
  for (int64_t i = 0; i < 256; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], i * 3000);
}

/// A worker that looked for a stop just before it came must not go to sleep for good.
TEST(ThreadPool, EndsWhateverItsWorkersDoAtThatMoment) {
  for (int i = 0; i < 10'000; ++i) {
    ThreadPool pool(4);
    std::atomic<int> num_run{0};
    pool.parallel_for(i % 5, 1, [&](int64_t, int64_t, int) { ++num_run; });
    ASSERT_EQ(num_run.load(), i % 5);
  }
}

TEST(ThreadPool, WakesAfterItsWorkersWentToSleep) {
  ThreadPool pool(3);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int64_t> sum{0};
    pool.parallel_for(100, 1, [&](int64_t begin, int64_t, int) { sum += begin; });
    EXPECT_EQ(sum.load(), 4950);
  }
}

TEST(Buffer, IsZeroAlignedAndMovable) {
  for (const size_t size : {size_t{1}, size_t{4096}, size_t{5} << 20}) {
    for (const bool huge : {false, true}) {
      Buffer buffer = Buffer::create(size, huge).value();
      ASSERT_EQ(buffer.size_bytes(), size);
      const auto address = reinterpret_cast<uintptr_t>(buffer.data());
      EXPECT_EQ(address % (size >= (2u << 20) ? 2u << 20 : 64u), 0u);
      EXPECT_EQ(buffer.data()[0], std::byte{0});
      EXPECT_EQ(buffer.data()[size - 1], std::byte{0});
      std::memset(buffer.data(), 1, size);
      std::byte* const data = buffer.data();
      Buffer moved = std::move(buffer);
      EXPECT_EQ(moved.data(), data);
      EXPECT_EQ(moved.data()[size - 1], std::byte{1});
      buffer = Buffer::create(64, false).value();
      moved = std::move(buffer);
      EXPECT_EQ(moved.size_bytes(), 64u);
    }
  }
  EXPECT_EQ(Buffer::create(0, true).value().data(), nullptr);
}

TEST(Buffer, RefusesWhatNoAddressSpaceHolds) {
  EXPECT_EQ(Buffer::create(~size_t{0}, false).error().code, Code::kOverloaded);
  EXPECT_EQ(Buffer::create(size_t{1} << 62, true).error().code, Code::kOverloaded);
}

TEST(Arena, PutsBuffersSideBySide) {
  Arena arena;
  EXPECT_EQ(arena.take(0).value().data(), nullptr);
  Buffer a = arena.take(1).value();
  const Buffer b = arena.take(100).value();
  EXPECT_EQ(b.data() - a.data(), 64);
  EXPECT_EQ(b.size_bytes(), 100u);
  EXPECT_EQ(b.data()[99], std::byte{0});
  // More than what is left of the region, and more than any region.
  Buffer large = arena.take(size_t{63} << 20).value();
  const Buffer next = arena.take(size_t{2} << 20).value();
  const Buffer huge = arena.take(size_t{65} << 20).value();
  for (const Buffer* buffer : std::initializer_list<const Buffer*>{&large, &next, &huge}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
    std::memset(buffer->data(), 1, buffer->size_bytes());
  }
  EXPECT_EQ(b.data()[99], std::byte{0});
}

TEST(Arena, IsOutlivedByItsBuffers) {
  Buffer a, b;
  {
    Arena arena;
    a = arena.take(4096).value();
    b = arena.take(4096).value();
    std::memset(a.data(), 1, 4096);
    std::memset(b.data(), 2, 4096);
  }
  a = Buffer();
  EXPECT_EQ(b.data()[4095], std::byte{2});
}

TEST(Arena, RefusesWhatNoAddressSpaceHoldsAndGoesOn) {
  Arena arena;
  const Buffer a = arena.take(64).value();
  EXPECT_EQ(arena.take(~size_t{0}).error().code, Code::kOverloaded);
  EXPECT_EQ(arena.take(size_t{1} << 62).error().code, Code::kOverloaded);
  EXPECT_EQ(arena.take(64).value().data() - a.data(), 64);
}

TEST(Workspace, HandsOutAlignedPiecesUntilReset) {
  Workspace workspace;
  workspace.reserve(1000).value();
  workspace.reserve(10).value();  // never shrinks
  EXPECT_GE(workspace.capacity_bytes(), 1000u);
  std::byte* const a = workspace.take(1);
  const size_t mark = workspace.mark();
  std::byte* const b = workspace.take(100);
  EXPECT_EQ(b - a, 64);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 64, 0u);
  workspace.reset(mark);
  EXPECT_EQ(workspace.take(5), b);
  workspace.reset();
  EXPECT_EQ(workspace.take(1000), a);
  EXPECT_DEATH(workspace.take(1000), "");
}

TEST(Machine, ReportsSomethingSensible) {
  const ThreadPlan plan = plan_threads({}).value();
  EXPECT_GE(plan.num_threads, 1);
  EXPECT_LE(plan.num_threads, static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_GT(memory_limit_bytes(), size_t{64} << 20);
  EXPECT_LE(available_memory_bytes(), memory_limit_bytes());
}

TEST(Machine, ReadsProcAndCgroupTexts) {
  using namespace internal;  // NOLINT
  const std::string_view meminfo = "MemTotal:       16384 kB\nMemAvailable:  123 kB\nBad: x kB\n";
  EXPECT_EQ(meminfo_bytes(meminfo, "MemTotal"), 16384u * 1024);
  EXPECT_EQ(meminfo_bytes(meminfo, "MemAvailable"), 123u * 1024);
  EXPECT_EQ(meminfo_bytes(meminfo, "Bad"), 0u);
  EXPECT_EQ(meminfo_bytes(meminfo, "Mem"), 0u);
  EXPECT_EQ(meminfo_bytes("", "MemTotal"), 0u);
  EXPECT_EQ(cpus_of_cpu_max("max 100000\n"), 0);
  EXPECT_EQ(cpus_of_cpu_max("150000 100000\n"), 2);
  EXPECT_EQ(cpus_of_cpu_max("200000 100000"), 2);
  EXPECT_EQ(cpus_of_cpu_max("1 100000"), 1);
  EXPECT_EQ(cpus_of_cpu_max("5 0"), 0);
  EXPECT_EQ(cpus_of_cpu_max(""), 0);
  const std::string_view cgroup = "5:cpu,cpuacct:/a/b\n4:memory:/m\n0::/v2\n";
  EXPECT_EQ(cgroup_path(cgroup, "cpu"), "/a/b");
  EXPECT_EQ(cgroup_path(cgroup, "cpuacct"), "/a/b");
  EXPECT_EQ(cgroup_path(cgroup, "memory"), "/m");
  EXPECT_EQ(cgroup_path(cgroup, ""), "/v2");
  EXPECT_EQ(cgroup_path(cgroup, "blkio"), "");
  EXPECT_EQ(cgroup_path("garbage\n::\n", "cpu"), "");
}

TEST(Roofs, EveryLevelAndUnitIsMeasured) {
  ThreadPool pool(2);
  const Buffer buffer = Buffer::create(size_t{8} << 20, true).value();
  std::memset(buffer.data(), 1, buffer.size_bytes());
  const Roofs roofs = measure_roofs(pool, buffer.data(), buffer.size_bytes());
  EXPECT_GT(roofs.read_gb_s, 0.01);
  EXPECT_LT(roofs.read_gb_s, 1e5);  // a pass that reads nothing would be faster
  const double cached = measure_cached_read(pool, buffer.data(), 16 << 10);
  EXPECT_GT(cached, 0.01);
  EXPECT_LT(cached, 1e5);
  const CacheSizes sizes = cache_sizes();
  if (sizes.l1 > 0 && sizes.l2 > 0) {
    EXPECT_LT(sizes.l1, sizes.l2);
  }
}

}  // namespace
}  // namespace octavo::device
