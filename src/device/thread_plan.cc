#include "device/thread_plan.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>
#include <optional>

#include "device/machine.h"

namespace octavo::device {
namespace internal {
namespace {

constexpr int kMaxCpu = 1 << 16;

std::optional<int> parse_cpu(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value >= 0 && value < kMaxCpu ? std::optional<int>(value) : std::nullopt;
}

Error bad_list(std::string_view text, const std::string& why) {
  return {Code::kInvalidArgument, "CPU list " + std::string(text) + ": " + why};
}

/// The node with most of the CPUs that are allowed; empty where there is only one.
std::vector<int> largest_node(const CpuTopology& topology) {
  std::vector<int> best;
  if (topology.nodes.size() < 2) return best;
  for (const std::vector<int>& node : topology.nodes) {
    std::vector<int> usable;
    std::ranges::copy_if(node, std::back_inserter(usable), [&](int cpu) {
      return std::ranges::binary_search(topology.allowed, cpu);
    });
    if (usable.size() > best.size()) best = std::move(usable);
  }
  std::ranges::sort(best);
  return best;
}

int num_usable(size_t num_cpus, const CpuTopology& topology, int num_reserved) {
  auto count = static_cast<int>(num_cpus);
  if (topology.quota > 0) count = std::min(count, topology.quota);
  return std::max(count - num_reserved, 1);
}

ThreadPlan plan_auto(const ThreadRequest& request, const CpuTopology& topology) {
  std::vector<int> node = largest_node(topology);
  const size_t num_cpus = node.empty() ? topology.allowed.size() : node.size();
  ThreadPlan plan;
  plan.num_threads = request.num_threads > 0 ? request.num_threads
                                             : num_usable(num_cpus, topology, request.num_reserved);
  // More threads than the node has CPUs: somebody wants them all over the machine.
  if (static_cast<size_t>(plan.num_threads) <= node.size()) {
    node.resize(static_cast<size_t>(plan.num_threads));
    plan.cpus = std::move(node);
  }
  return plan;
}

}  // namespace

Result<std::vector<int>> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  std::string_view rest = text;
  for (bool is_last = false; !is_last;) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    is_last = comma == std::string_view::npos;
    if (!is_last) rest.remove_prefix(comma + 1);
    const size_t dash = part.find('-');
    const auto first = parse_cpu(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_cpu(part.substr(dash + 1));
    if (!first || !last || *last < *first) {
      return bad_list(text, "\"" + std::string(part) + "\" is neither a CPU nor a range of CPUs");
    }
    for (int cpu = *first; cpu <= *last; ++cpu) {
      if (std::ranges::find(cpus, cpu) != cpus.end()) {
        return bad_list(text, "names CPU " + std::to_string(cpu) + " twice");
      }
      if (cpus.size() >= 4096) return bad_list(text, "names more than 4096 CPUs");
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

std::string format_cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[i]);
    if (end - i > 1) text += '-' + std::to_string(cpus[end - 1]);
    i = end;
  }
  return text;
}

Result<ThreadPlan> plan_threads(const ThreadRequest& request, const CpuTopology& topology) {
  if (request.bind == "auto") return plan_auto(request, topology);
  if (request.bind == "nobind") {
    const int count = num_usable(topology.allowed.size(), topology, 0);
    return ThreadPlan{request.num_threads > 0 ? request.num_threads : count, {}};
  }
  OCTAVO_TRY(std::vector<int> cpus, parse_cpu_list(request.bind));
  for (const int cpu : cpus) {
    if (!std::ranges::binary_search(topology.allowed, cpu)) {
      return bad_list(request.bind, "CPU " + std::to_string(cpu) +
                                        " is not one that this process may use (" +
                                        format_cpu_list(topology.allowed) + ")");
    }
  }
  const auto count = static_cast<int>(cpus.size());
  if (request.num_threads > 0 && request.num_threads != count) {
    return bad_list(request.bind, "has " + std::to_string(count) + " CPUs for --num-threads " +
                                      std::to_string(request.num_threads));
  }
  return ThreadPlan{count, std::move(cpus)};
}

}  // namespace internal

namespace {

std::vector<int> affinity_mask() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
  }
  if (!cpus.empty()) return cpus;
  // More CPUs than the set can hold.
  cpus.resize(static_cast<size_t>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L)));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

std::vector<std::vector<int>> numa_nodes() {
  constexpr int kMaxNodes = 1024;
  std::vector<std::vector<int>> nodes;
  for (int node = 0; node < kMaxNodes; ++node) {
    const std::string path = "/sys/devices/system/node/node" + std::to_string(node) + "/cpulist";
    std::string text = internal::read_small_file(path);
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    if (auto cpus = internal::parse_cpu_list(text); cpus.ok()) nodes.push_back(std::move(*cpus));
  }
  return nodes;
}

}  // namespace

Result<ThreadPlan> plan_threads(const ThreadRequest& request) {
  internal::CpuTopology topology;
  topology.allowed = affinity_mask();
  topology.quota = cpu_quota();
  if (request.bind == "auto") topology.nodes = numa_nodes();
  return internal::plan_threads(request, topology);
}

std::string describe_binding(const ThreadPlan& plan) {
  if (plan.cpus.empty()) return "not bound to CPUs";
  return "bound to CPUs " + internal::format_cpu_list(plan.cpus);
}

}  // namespace octavo::device
