#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "kernels/context.h"

namespace octavo::kernels {

/// Shares tasks out so that a thread takes neighbouring ones in order and, as long as the threads
/// are equally fast, the same ones in each op of the same size: what it wrote is in its cache, what
/// it reads next follows what it read, and two threads do not write to one cache line at once. Who
/// is done early takes the last task of another one's.
class TaskLanes {
 public:
  TaskLanes(int64_t num_tasks, int num_threads)
      : num_lanes_(static_cast<int>(std::clamp<int64_t>(num_threads, 1, kMaxLanes))) {
    for (int lane = 0; lane < num_lanes_; ++lane) {
      const int64_t begin = num_tasks * lane / num_lanes_;
      const int64_t end = num_tasks * (lane + 1) / num_lanes_;
      lanes_[lane].left.store(pack(begin, end), std::memory_order_relaxed);
    }
  }

  /// A task that nobody has taken; there is one as long as there were fewer calls than tasks.
  int64_t take(int thread_index) {
    const int own = thread_index % num_lanes_;
    while (true) {
      for (int i = 0; i < num_lanes_; ++i) {
        const int lane = (own + i) % num_lanes_;
        uint64_t left = lanes_[lane].left.load(std::memory_order_relaxed);
        while (begin_of(left) < end_of(left)) {
          const int64_t begin = begin_of(left);
          const int64_t end = end_of(left);
          const uint64_t rest = i == 0 ? pack(begin + 1, end) : pack(begin, end - 1);
          if (lanes_[lane].left.compare_exchange_weak(left, rest, std::memory_order_relaxed)) {
            return i == 0 ? begin : end - 1;
          }
        }
      }
    }
  }

 private:
  static constexpr int kMaxLanes = 64;
  static uint64_t pack(int64_t begin, int64_t end) {
    return static_cast<uint64_t>(end) << 32 | static_cast<uint64_t>(begin);
  }
  static int64_t begin_of(uint64_t left) { return static_cast<int64_t>(left & 0xffffffffu); }
  static int64_t end_of(uint64_t left) { return static_cast<int64_t>(left >> 32); }

  struct alignas(64) Lane {
    std::atomic<uint64_t> left;
  };
  int num_lanes_;
  Lane lanes_[kMaxLanes];
};

/// body(task, thread_index) for each task in [0, num_tasks), on one thread if it `forks` not.
template <class Body>
void for_each_task(const KernelContext& ctx, int64_t num_tasks, bool forks, Body body) {
  TaskLanes lanes(num_tasks, forks ? ctx.pool.num_threads() : 1);
  ctx.pool.parallel_for(num_tasks, forks ? 1 : num_tasks,
                        [&](int64_t begin, int64_t end, int thread) {
                          for (; begin < end; ++begin) body(lanes.take(thread), thread);
                        });
}

}  // namespace octavo::kernels
