#include "kernels/linear/task_lanes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "support.h"

namespace octavo::kernels {
namespace {

TEST(TaskLanes, GivesEachTaskOnce) {
  for (const int num_threads : {1, 2, 3, 7, 64, 100}) {
    for (const int64_t num_tasks : {1, 2, 5, 64, 1000}) {
      TaskLanes lanes(num_tasks, num_threads);
      std::vector<int> times(static_cast<size_t>(num_tasks));
      for (int64_t i = 0; i < num_tasks; ++i) {
        const auto task = static_cast<size_t>(lanes.take(static_cast<int>(i % num_threads)));
        ASSERT_LT(task, times.size());
        ++times[task];
      }
      for (const int count : times) ASSERT_EQ(count, 1) << num_tasks << " on " << num_threads;
    }
  }
}

TEST(TaskLanes, AThreadTakesNeighboursInOrderThenTheLastOfOthers) {
  TaskLanes lanes(6, 2);
  EXPECT_EQ(lanes.take(1), 3);
  EXPECT_EQ(lanes.take(1), 4);
  EXPECT_EQ(lanes.take(1), 5);
  EXPECT_EQ(lanes.take(1), 2);
  EXPECT_EQ(lanes.take(0), 0);
  EXPECT_EQ(lanes.take(0), 1);
}

TEST(TaskLanes, ThreadsShareTasks) {
  Machine machine(3);
  for (const bool forks : {false, true}) {
    std::vector<std::atomic<int>> times(500);
    for_each_task(machine.context(), 500, forks, [&](int64_t task, int thread) {
      EXPECT_LT(thread, forks ? 3 : 1);
      ++times[static_cast<size_t>(task)];
    });
    for (const auto& count : times) EXPECT_EQ(count.load(), 1);
  }
}

}  // namespace
}  // namespace octavo::kernels
