#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "observability/metrics.h"
#include "observability/text_format.h"

// process_* series, read from /proc as prometheus_client's process collector does.

namespace octavo::observability {
namespace {

/// Fields of /proc/self/stat behind the command name, from the process state (field 3) on; empty
/// when it cannot be read.
std::vector<double> stat_fields() {
  std::ifstream in("/proc/self/stat");
  std::string line;
  std::getline(in, line);
  const size_t close = line.rfind(')');  // the name may contain anything
  if (close == std::string::npos) return {};
  std::istringstream rest(line.substr(close + 1));
  std::string state;
  rest >> state;
  std::vector<double> fields{0};
  for (double v = 0; rest >> v;) fields.push_back(v);
  return fields;
}

/// Seconds since the epoch at which the machine started.
double boot_time() {
  std::ifstream in("/proc/stat");
  for (std::string line; std::getline(in, line);) {
    double seconds = 0;
    if (std::sscanf(line.c_str(), "btime %lf", &seconds) == 1) return seconds;
  }
  return 0;
}

void append_gauge(std::string& out, std::string_view name, std::string_view help, double value,
                  std::string_view type = "gauge") {
  append_header(out, name, help, type);
  append_sample(out, name, "", "", value);
}

}  // namespace

void append_process_text(std::string& out) {
  // proc(5): state is field 3, utime 14, stime 15, starttime 22, vsize 23, rss 24.
  constexpr size_t kUtime = 11, kStime = 12, kStart = 19, kVsize = 20, kRss = 21;
  const auto fields = stat_fields();
  if (fields.size() > kRss) {
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    append_gauge(out, "process_virtual_memory_bytes", "Virtual memory size in bytes.",
                 fields[kVsize]);
    append_gauge(out, "process_resident_memory_bytes", "Resident memory size in bytes.",
                 fields[kRss] * static_cast<double>(sysconf(_SC_PAGESIZE)));
    append_gauge(out, "process_start_time_seconds",
                 "Start time of the process since unix epoch in seconds.",
                 boot_time() + fields[kStart] / ticks);
    append_gauge(out, "process_cpu_seconds_total",
                 "Total user and system CPU time spent in seconds.",
                 (fields[kUtime] + fields[kStime]) / ticks, "counter");
  }
  std::error_code error;
  double open = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    ++open;
  }
  append_gauge(out, "process_open_fds", "Number of open file descriptors.", open);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    append_gauge(out, "process_max_fds", "Maximum number of open file descriptors.",
                 static_cast<double>(limit.rlim_cur));
  }
}

}  // namespace octavo::observability
