#include "device/machine.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <optional>
#include <string>

namespace octavo::device {
namespace {

constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

std::optional<int64_t> parse_number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::optional<int64_t> read_number(const std::string& path) {
  return parse_number(internal::read_small_file(path));
}

/// Value of the line `key value` in a cgroup's memory.stat; 0 if absent.
size_t stat_value(std::string_view text, std::string_view key) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
      return static_cast<size_t>(
          std::max<int64_t>(parse_number(line.substr(key.size())).value_or(0), 0));
    }
    at = end + 1;
  }
  return 0;
}

/// Calls `visit` with the folder of this process's cgroup and of each ancestor. In a container the
/// path may name a folder outside of what is mounted; then reading fails and only the root counts.
void for_each_cgroup(std::string_view controller,
                     const std::function<void(const std::string&)>& visit) {
  const std::string text = internal::read_small_file("/proc/self/cgroup");
  std::string root = "/sys/fs/cgroup";
  if (!controller.empty()) root.append("/").append(controller);
  std::string path(internal::cgroup_path(text, controller));
  while (path.size() > 1) {
    visit(root + path);
    path.resize(path.rfind('/'));
  }
  visit(root);
}

struct MemoryLimit {
  size_t total = kNoLimit;
  size_t free = kNoLimit;
};

void apply_limit(MemoryLimit& limit, std::optional<int64_t> max, std::optional<int64_t> used,
                 size_t droppable) {
  if (!max || *max < 0) return;
  const auto total = static_cast<size_t>(*max);
  const auto in_use = static_cast<size_t>(std::max<int64_t>(used.value_or(0), 0));
  const size_t held = in_use - std::min(in_use, droppable);
  limit.total = std::min(limit.total, total);
  limit.free = std::min(limit.free, total - std::min(total, held));
}

MemoryLimit cgroup_memory() {
  MemoryLimit limit;
  for_each_cgroup("", [&](const std::string& folder) {  // "max" is no number: no limit
    apply_limit(limit, read_number(folder + "/memory.max"), read_number(folder + "/memory.current"),
                stat_value(internal::read_small_file(folder + "/memory.stat"), "inactive_file"));
  });
  for_each_cgroup("memory", [&](const std::string& folder) {
    apply_limit(
        limit, read_number(folder + "/memory.limit_in_bytes"),
        read_number(folder + "/memory.usage_in_bytes"),
        stat_value(internal::read_small_file(folder + "/memory.stat"), "total_inactive_file"));
  });
  return limit;
}

}  // namespace

namespace internal {

std::string read_small_file(const std::string& path) {
  std::string text;
  if (FILE* file = std::fopen(path.c_str(), "re")) {
    char part[4096];
    for (size_t n; text.size() < (1u << 20) && (n = std::fread(part, 1, sizeof part, file)) > 0;) {
      text.append(part, n);
    }
    std::fclose(file);
  }
  return text;
}

size_t meminfo_bytes(std::string_view text, std::string_view key) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ':') {
      const int64_t kib = parse_number(line.substr(key.size() + 1)).value_or(0);
      return kib > 0 && kib < (int64_t{1} << 52) ? static_cast<size_t>(kib) * 1024 : 0;
    }
    at = end + 1;
  }
  return 0;
}

int cpus_of_cpu_max(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return 0;
  const auto quota = parse_number(line.substr(0, space));
  const auto period = parse_number(line.substr(space + 1));
  if (!quota || !period || *quota <= 0 || *period <= 0) return 0;
  const int64_t cpus = (*quota - 1) / *period + 1;
  return static_cast<int>(std::min<int64_t>(cpus, 1 << 20));
}

std::string_view cgroup_path(std::string_view text, std::string_view controller) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    std::string_view names = line.substr(first + 1, second - first - 1);
    if (names.empty() && controller.empty()) return line.substr(second + 1);
    while (!names.empty()) {  // "cpu,cpuacct"
      const size_t comma = std::min(names.find(','), names.size());
      if (names.substr(0, comma) == controller) return line.substr(second + 1);
      names.remove_prefix(std::min(comma + 1, names.size()));
    }
  }
  return {};
}

}  // namespace internal

int cpu_quota() {
  int cpus = 0;
  const auto apply = [&](int allowed) {
    if (allowed > 0) cpus = cpus == 0 ? allowed : std::min(cpus, allowed);
  };
  for_each_cgroup("", [&](const std::string& folder) {
    apply(internal::cpus_of_cpu_max(internal::read_small_file(folder + "/cpu.max")));
  });
  for_each_cgroup("cpu", [&](const std::string& folder) {
    const auto quota = read_number(folder + "/cpu.cfs_quota_us");
    const auto period = read_number(folder + "/cpu.cfs_period_us");
    if (quota && period && *quota > 0) {
      std::string line = std::to_string(*quota);
      line.append(" ").append(std::to_string(*period));
      apply(internal::cpus_of_cpu_max(line));
    }
  });
  return cpus;
}

size_t memory_limit_bytes() {
  const size_t total =
      internal::meminfo_bytes(internal::read_small_file("/proc/meminfo"), "MemTotal");
  return std::min(total == 0 ? kNoLimit : total, cgroup_memory().total);
}

size_t available_memory_bytes() {
  const size_t free =
      internal::meminfo_bytes(internal::read_small_file("/proc/meminfo"), "MemAvailable");
  return std::min(free == 0 ? kNoLimit : free, cgroup_memory().free);
}

CacheSizes cache_sizes() {
  const auto size = [](int name) {
    const long bytes = ::sysconf(name);
    return bytes > 0 ? static_cast<size_t>(bytes) : size_t{0};
  };
  return {size(_SC_LEVEL1_DCACHE_SIZE), size(_SC_LEVEL2_CACHE_SIZE), size(_SC_LEVEL3_CACHE_SIZE)};
}

}  // namespace octavo::device
