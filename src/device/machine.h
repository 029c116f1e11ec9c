#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace octavo::device {

/// Memory of the machine as this process may use it: the smaller of MemTotal and the limits of its
/// cgroup and that cgroup's ancestors.
size_t memory_limit_bytes();

/// What is free of it now: the smaller of MemAvailable and, in each such cgroup, limit minus usage
/// (page cache that can be dropped counts as free).
size_t available_memory_bytes();

/// CPUs that the quotas of this process's cgroups (v2 `cpu.max`, v1 `cpu.cfs_quota_us`) allow,
/// rounded up; 0: no quota.
int cpu_quota();

/// Bytes of the first CPU's data caches as it reports them; 0 for one that it does not.
struct CacheSizes {
  size_t l1 = 0;
  size_t l2 = 0;
  size_t l3 = 0;  // usually shared by several cores
};
CacheSizes cache_sizes();

namespace internal {
/// Whole text of a small file of /proc or /sys, at most 1 MiB; "" when it cannot be read.
std::string read_small_file(const std::string& path);
/// The number behind `key` in the `Key:   123 kB` lines of /proc/meminfo, in bytes; 0 if absent.
size_t meminfo_bytes(std::string_view text, std::string_view key);
/// CPUs that a v2 `cpu.max` line ("max 100000", "150000 100000") allows, rounded up; 0 = no limit.
int cpus_of_cpu_max(std::string_view line);
/// The path behind `controller` in /proc/self/cgroup ("" selects the v2 line `0::/path`); "" if
/// absent.
std::string_view cgroup_path(std::string_view text, std::string_view controller);
}  // namespace internal

}  // namespace octavo::device
