#include "bench/startup.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "bench/offline_command.h"
#include "bench/page_cache.h"
#include "bench/progress_bar.h"
#include "bench/statistics.h"

namespace octavo::bench {
namespace {

using config::OptionKind;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr auto kFlags = std::to_array<config::Option>({
    {"num-iters-cold", OptionKind::kInt, "3", "Starts with the model's files not in memory."},
    {"num-iters-warmup", OptionKind::kInt, "1", "Starts that are not counted, before warm ones."},
    {"num-iters-warm", OptionKind::kInt, "3", "Starts with the model's files in memory."},
    {"output-json", OptionKind::kText, "", "File of the result."},
});
constexpr auto kPercentiles = std::to_array<int>({10, 25, 50, 75, 90, 99});

Status check(const config::CommandLine& line) {
  constexpr int64_t kMost = 10000;
  for (const std::string_view name : {"num-iters-cold", "num-iters-warmup", "num-iters-warm"}) {
    const int64_t least = name == "num-iters-warmup" ? 0 : 1;
    const int64_t value = line.integer(name);
    if (value < least || value > kMost) {
      return Error{Code::kInvalidArgument,
                   fmt::format("--{} must be {} to {}", name, least, kMost)};
    }
  }
  return {};
}

/// What the child tells its parent.
struct Report {
  bool is_ready = false;
  double seconds = 0;
  char message[500] = {};
};

Report start_engine(const config::Config& config, const Host& host, Clock::time_point start) {
  Report report;
  const auto engine = host.open_engine(config);
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  report.is_ready = engine.ok();
  if (!engine.ok()) {
    const std::string& text = engine.error().message;
    std::memcpy(report.message, text.data(), std::min(text.size(), sizeof(report.message) - 1));
  }
  return report;
}

/// Reads `size` bytes; false at an early end.
bool read_all(int file, void* to, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t n = ::read(file, static_cast<char*>(to) + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += size_t(n);
  }
  return true;
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return fmt::format("the starting process was ended by signal {}{}", signal,
                       signal == SIGKILL ? " (out of memory?)" : "");
  }
  return fmt::format("the starting process ended with status {}", WEXITSTATUS(status));
}

/// Seconds of one start, in a process of its own. This process must have no other thread yet.
Result<double> time_start(const config::Config& config, const Host& host) {
  int ends[2];
  if (::pipe(ends) != 0) return Error{Code::kInternal, "no pipe for the starting process"};
  std::fflush(nullptr);
  const auto start = Clock::now();
  const pid_t child = ::fork();
  if (child < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    return Error{Code::kInternal, fmt::format("no process to start in: {}", std::strerror(errno))};
  }
  if (child == 0) {
    const Report report = start_engine(config, host, start);
    const ssize_t written = ::write(ends[1], &report, sizeof report);
    // No atexit: what it would tidy up is the parent's.
    ::_exit(written == ssize_t(sizeof report) ? 0 : 1);
  }
  ::close(ends[1]);
  Report report;
  const bool has_report = read_all(ends[0], &report, sizeof report);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!has_report) return Error{Code::kInternal, describe_end(status)};
  if (!report.is_ready) return Error{Code::kInternal, report.message};
  return report.seconds;
}

/// The starts of one command.
class Starts {
 public:
  Starts(const config::Config& config, const Host& host) : config_(config), host_(host) {}

  Status find_files() {
    OCTAVO_TRY(files_, host_.list_model_files(config_));
    return {};
  }

  Result<std::vector<double>> run(int64_t count, bool is_cold) {
    std::vector<double> times;
    ProgressBar bar(host_.err, size_t(count), true);
    for (int64_t i = 0; i < count; ++i) {
      if (is_cold) dropped_ = drop_from_page_cache(files_);
      OCTAVO_TRY(const double seconds, time_start(config_, host_));
      times.push_back(seconds);
      bar.update(size_t(i + 1));
    }
    bar.close();
    return times;
  }

  /// How cold the last cold start was.
  void describe_cold() const {
    fmt::print(host_.out,
               "Cold: {} files of the model ({:.1f} MB) dropped from the page cache; {:.0f} % "
               "stayed in memory.\n",
               dropped_.num_files, dropped_.bytes / 1e6,
               dropped_.bytes > 0 ? 100 * dropped_.cached_bytes / dropped_.bytes : 0.0);
  }

 private:
  const config::Config& config_;
  const Host& host_;
  std::vector<std::string> files_;
  CachedFiles dropped_;
};

Result<StartupTimes> measure(const config::CommandLine& line, const config::Config& config,
                             const Host& host) {
  const auto say = [&](const char* text) {
    fmt::print(host.out, "{}\n", text);
    std::fflush(host.out);
  };
  Starts starts(config, host);
  OCTAVO_TRY(starts.find_files());
  StartupTimes times;
  say("Measuring cold startup time...");
  OCTAVO_TRY(times.cold, starts.run(line.integer("num-iters-cold"), true));
  starts.describe_cold();
  if (line.integer("num-iters-warmup") > 0) {
    say("Warming up for warm startup measurement...");
    OCTAVO_TRY(starts.run(line.integer("num-iters-warmup"), false));
  }
  say("Measuring warm startup time...");
  OCTAVO_TRY(times.warm, starts.run(line.integer("num-iters-warm"), false));
  return times;
}

struct Phase {
  std::string_view name;
  std::vector<double> startup;
  std::vector<double> compilation;  // as many zeros
};

std::array<Phase, 2> phases(const StartupTimes& times) {
  return {Phase{"cold", times.cold, std::vector<double>(times.cold.size())},
          Phase{"warm", times.warm, std::vector<double>(times.warm.size())}};
}

std::vector<double> sorted(std::vector<double> values) {
  std::ranges::sort(values);
  return values;
}

}  // namespace

std::string format_startup(const StartupTimes& times) {
  const std::string rule(60, '=');
  std::string out = fmt::format("\n{}\nSTARTUP TIME BENCHMARK RESULTS\n{}\n", rule, rule);
  for (const Phase& phase : phases(times)) {
    out += fmt::format("\n{} STARTUP:\n", phase.name == "cold" ? "COLD" : "WARM");
    out += fmt::format("Avg startup time: {:.2f} seconds\n", mean(phase.startup));
    out += fmt::format("Avg compilation time: {:.2f} seconds\n", mean(phase.compilation));
    for (const bool is_startup : {true, false}) {
      const auto values = sorted(is_startup ? phase.startup : phase.compilation);
      out += fmt::format("{} time percentiles:\n", is_startup ? "Startup" : "Compilation");
      for (const int p : kPercentiles) {
        out += fmt::format("  {}%: {:.2f} seconds\n", p, percentile_of_sorted(values, p));
      }
    }
  }
  return out + rule + "\n";
}

nlohmann::ordered_json startup_json(const StartupTimes& times) {
  Json out = Json::object();
  for (const Phase& phase : phases(times)) {
    for (const bool is_startup : {true, false}) {
      const auto& values = is_startup ? phase.startup : phase.compilation;
      const std::string key =
          fmt::format("{}_{}", phase.name, is_startup ? "startup" : "compilation");
      Json percentiles = Json::object();
      for (const int p : kPercentiles) {
        percentiles[std::to_string(p)] = percentile_of_sorted(sorted(values), p);
      }
      out[fmt::format("avg_{}_time", key)] = mean(values);
      out[key + "_times"] = values;
      out[key + "_percentiles"] = std::move(percentiles);
    }
  }
  return out;
}

int run_startup(std::span<const std::string> args, const Host& host) {
  int exit_code = 0;
  const auto command = read_offline("startup", kFlags, args, host, exit_code);
  if (!command) return exit_code;
  const auto fail = [&](int code, const std::string& message) {
    fmt::print(host.err, "octavo bench startup: error: {}\n", message);
    return code;
  };
  if (const Status status = check(command->line); !status.ok()) {
    return fail(2, status.error().message);
  }
  const auto times = measure(command->line, command->config, host);
  if (!times.ok()) return fail(1, times.error().message);
  fmt::print(host.out, "{}", format_startup(*times));
  const std::string& path = command->line.text("output-json");
  return path.empty() ? 0 : write_json(path, startup_json(*times).dump(4), host);
}

}  // namespace octavo::bench
