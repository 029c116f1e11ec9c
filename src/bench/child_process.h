#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace octavo::bench {

/// While it lives, SIGINT, SIGTERM and SIGHUP do not end this process but are remembered,
/// so that it can end its children first. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The first signal that came; 0 for none.
  static int caught();
  /// Whether more than one came: somebody does not want to wait.
  static bool is_urgent();
};

struct ChildOptions {
  std::string output_path;  // both outputs are appended to this file; empty: ours
  std::vector<std::pair<std::string, std::string>> environment;  // beside ours
};

/// A command that runs in a process group of its own, so that it can be ended with everything it
/// started, and nothing else is. It also gets SIGTERM when this process dies. Its standard input is
/// empty. Ended on destruction.
class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;

  /// Error: the output file or the program cannot be opened.
  static Result<ChildProcess> start(const std::vector<std::string>& words,
                                    const ChildOptions& options);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  /// How it ended: its status, or 128 + the signal. nullopt while it runs.
  std::optional<int> exit_status();
  /// Waits for its end. nullopt: the deadline passed or a signal was caught; it still runs.
  std::optional<int> wait_until(Clock::time_point deadline);
  /// SIGTERM to its process group, SIGKILL to what is left of it after `grace`.
  void stop(std::chrono::milliseconds grace);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;  // leader and id of the group; not reaped before the group is gone
  std::optional<int> status_;
};

/// Pauses; a signal ends it sooner.
void pause_for(std::chrono::milliseconds time);

/// The last `count` lines of a text file, the empty string if there are none.
std::string last_lines(const std::string& path, size_t count);

}  // namespace octavo::bench
