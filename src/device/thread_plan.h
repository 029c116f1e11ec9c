#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace octavo::device {

/// How many threads compute, and on which CPUs.
struct ThreadPlan {
  int num_threads = 1;
  /// One CPU a thread, the caller's first; empty: threads run where the kernel puts them.
  std::vector<int> cpus;
};

/// What the operator asked for.
struct ThreadRequest {
  int num_threads = 0;  // 0: as many as the binding gives
  /// VLLM_CPU_OMP_THREADS_BIND: "auto", "nobind" or a list of CPUs ("0-3,8").
  std::string_view bind = "auto";
  /// VLLM_CPU_NUM_OF_RESERVED_CPU: CPUs that "auto" leaves to others.
  int num_reserved = 0;
};

/// "auto" binds only where there are several NUMA nodes: then to the one that has most of the CPUs
/// that this process may use, so that threads and the weights they touch first are on one node. On
/// one node the kernel may move threads away from busy cores. Error kInvalidArgument for a list
/// that cannot be read, that names a CPU outside the process's affinity mask, or whose length
/// contradicts `num_threads`.
Result<ThreadPlan> plan_threads(const ThreadRequest& request);

/// "bound to CPUs 0-3,8", or that they are not bound.
std::string describe_binding(const ThreadPlan& plan);

namespace internal {

struct CpuTopology {
  std::vector<int> allowed;             // the affinity mask, sorted
  int quota = 0;                        // CPUs of the cgroup's quota, 0: none
  std::vector<std::vector<int>> nodes;  // CPUs of each NUMA node
};

Result<ThreadPlan> plan_threads(const ThreadRequest& request, const CpuTopology& topology);
/// "0-3,8" as [0, 1, 2, 3, 8]; an error says what is wrong with which part.
Result<std::vector<int>> parse_cpu_list(std::string_view text);
std::string format_cpu_list(const std::vector<int>& cpus);

}  // namespace internal
}  // namespace octavo::device
