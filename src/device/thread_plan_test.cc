#include "device/thread_plan.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "device/thread_pool.h"

namespace octavo::device {
namespace {

using internal::CpuTopology;
using internal::format_cpu_list;
using internal::parse_cpu_list;
using Cpus = std::vector<int>;

std::string error_of(const ThreadRequest& request, const CpuTopology& topology) {
  const auto plan = internal::plan_threads(request, topology);
  return plan.ok() ? "" : plan.error().message;
}

TEST(ThreadPlan, CpuListsAreReadAndWritten) {
  EXPECT_EQ(parse_cpu_list("0-3,8").value(), (Cpus{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list("5").value(), (Cpus{5}));
  EXPECT_EQ(format_cpu_list({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
  EXPECT_EQ(format_cpu_list({}), "");
  for (const char* bad : {"", "x", "1-", "-1", "3-1", "1,,2", "1,", "1|2", "0,0", "0-2,1",
                          "99999999", "0-65535", "1 2", "0x3"}) {
    EXPECT_FALSE(parse_cpu_list(bad).ok()) << bad;
  }
}

TEST(ThreadPlan, OneNodeIsNotBound) {
  const CpuTopology one{.allowed = {0, 1, 2, 3}, .quota = 0, .nodes = {{0, 1, 2, 3}}};
  const ThreadPlan plan = internal::plan_threads({}, one).value();
  EXPECT_EQ(plan.num_threads, 4);
  EXPECT_EQ(plan.cpus, Cpus{});
  EXPECT_EQ(describe_binding(plan), "not bound to CPUs");
  EXPECT_EQ(internal::plan_threads({.num_reserved = 1}, one)->num_threads, 3);
  EXPECT_EQ(internal::plan_threads({.num_reserved = 9}, one)->num_threads, 1);
  EXPECT_EQ(internal::plan_threads({.num_threads = 7}, one)->num_threads, 7);
}

TEST(ThreadPlan, TheQuotaOfTheCgroupCounts) {
  const CpuTopology half{.allowed = {0, 1, 2, 3}, .quota = 2, .nodes = {{0, 1, 2, 3}}};
  EXPECT_EQ(internal::plan_threads({}, half)->num_threads, 2);
  EXPECT_EQ(internal::plan_threads({.bind = "nobind"}, half)->num_threads, 2);
}

TEST(ThreadPlan, OfSeveralNodesTheOneWithMostUsableCpusIsTaken) {
  const CpuTopology two{
      .allowed = {2, 3, 4, 5, 6}, .quota = 0, .nodes = {{0, 1, 2, 3}, {4, 5, 6, 7}}};
  const ThreadPlan plan = internal::plan_threads({}, two).value();
  EXPECT_EQ(plan.num_threads, 3);
  EXPECT_EQ(plan.cpus, (Cpus{4, 5, 6}));
  EXPECT_EQ(describe_binding(plan), "bound to CPUs 4-6");
  EXPECT_EQ(internal::plan_threads({.num_threads = 2}, two)->cpus, (Cpus{4, 5}));
  EXPECT_EQ(internal::plan_threads({.num_threads = 5}, two)->cpus, Cpus{});  // wants both nodes
  EXPECT_EQ(internal::plan_threads({.bind = "nobind"}, two)->cpus, Cpus{});
}

TEST(ThreadPlan, AListIsTakenAsItIsOrRefused) {
  const CpuTopology four{.allowed = {0, 1, 2, 3}, .quota = 0, .nodes = {}};
  const ThreadPlan plan = internal::plan_threads({.bind = "3,1"}, four).value();
  EXPECT_EQ(plan.num_threads, 2);
  EXPECT_EQ(plan.cpus, (Cpus{3, 1}));
  EXPECT_NE(
      error_of({.bind = "0-4"}, four).find("CPU 4 is not one that this process may use (0-3)"),
      std::string::npos);
  EXPECT_NE(error_of({.num_threads = 3, .bind = "0-1"}, four).find("2 CPUs for --num-threads 3"),
            std::string::npos);
  EXPECT_NE(error_of({.bind = "fast"}, four).find("\"fast\""), std::string::npos);
}

Cpus cpus_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  Cpus cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

TEST(ThreadPool, RunsWhereThePlanSaysAndTheCallerComesBack) {
  const Cpus before = cpus_of_this_thread();
  const int last = before.back();
  ThreadPool pool(ThreadPlan{2, {before.front(), last}});
  {
    const CallerBinding binding(pool);
    EXPECT_EQ(cpus_of_this_thread(), Cpus{before.front()});
    std::atomic<bool> worker_ran = false;
    // Until the worker gets a piece: the caller alone could take them all.
    for (int i = 0; i < 10000 && !worker_ran; ++i) {
      pool.parallel_for(64, 1, [&](int64_t, int64_t, int thread) {
        if (thread != 1) return std::this_thread::yield();
        EXPECT_EQ(cpus_of_this_thread(), Cpus{last});
        worker_ran = true;
      });
    }
    EXPECT_TRUE(worker_ran);
  }
  EXPECT_EQ(cpus_of_this_thread(), before);
  // Without a plan nothing is bound; a CPU that does not exist binds nothing.
  const CallerBinding unbound{ThreadPool(2)};
  EXPECT_EQ(cpus_of_this_thread(), before);
  const CallerBinding gone{ThreadPool(ThreadPlan{1, {CPU_SETSIZE - 1}})};
  EXPECT_EQ(cpus_of_this_thread(), before);
}

}  // namespace
}  // namespace octavo::device
