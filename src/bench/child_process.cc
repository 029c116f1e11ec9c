#include "bench/child_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fstream>

extern char** environ;

namespace octavo::bench {
namespace {

constexpr auto kStopSignals = std::to_array<int>({SIGINT, SIGTERM, SIGHUP});
// What a handler may touch.
std::atomic<int> first_signal{0};
std::atomic<int> num_signals{0};
static_assert(std::atomic<int>::is_always_lock_free);
std::array<struct sigaction, kStopSignals.size()> old_actions;

void remember_signal(int number) {
  int none = 0;
  first_signal.compare_exchange_strong(none, number);
  ++num_signals;
}

/// Everything that the child needs between fork and exec, where it may not allocate.
struct Start {
  std::vector<char*> words;
  std::vector<char*> environment;
  int output = -1;
  int input = -1;
  int report = -1;  // gets errno if exec fails
  pid_t parent = 0;
};

[[noreturn]] void run_child(const Start& start) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  if (start.input >= 0) ::dup2(start.input, STDIN_FILENO);
  if (start.output >= 0) {
    ::dup2(start.output, STDOUT_FILENO);
    ::dup2(start.output, STDERR_FILENO);
  }
  if (::getppid() == start.parent) {
    ::execvpe(start.words[0], start.words.data(), start.environment.data());
  }
  const int error = errno;
  if (::write(start.report, &error, sizeof error) < 0) ::_exit(126);
  ::_exit(127);
}

std::vector<std::string> merged_environment(const ChildOptions& options) {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_replaced = std::ranges::any_of(
        options.environment, [&](const auto& added) { return added.first == name; });
    if (!is_replaced) out.emplace_back(text);
  }
  for (const auto& [name, value] : options.environment) {
    out.push_back(fmt::format("{}={}", name, value));
  }
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

/// Process group, state and number of threads from /proc/PID/stat; the name before them may contain
/// anything. The first thread of a process becomes a zombie before the others have ended: they
/// still hold its sockets.
bool is_alive_in_group(const char* pid_text, pid_t group) {
  std::ifstream file(std::string("/proc/") + pid_text + "/stat");
  std::string text;
  if (!std::getline(file, text)) return false;
  const size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return false;
  char state = 0;
  int parent = 0;
  int its_group = 0;
  int num_threads = 0;
  constexpr const char* kFields =
      " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d";
  if (std::sscanf(text.c_str() + end_of_name + 1, kFields, &state, &parent, &its_group,
                  &num_threads) != 4) {
    return false;
  }
  return its_group == group && ((state != 'Z' && state != 'X') || num_threads > 1);
}

/// Whether a process of the group still runs. Its leader is ours and not reaped, so that nobody
/// else can have its number.
bool group_is_alive(pid_t group) {
  DIR* folder = ::opendir("/proc");
  if (folder == nullptr) return true;
  bool found = false;
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    if (is_alive_in_group(entry->d_name, group)) {
      found = true;
      break;
    }
  }
  ::closedir(folder);
  return found;
}

}  // namespace

StopSignals::StopSignals() {
  first_signal = 0;
  num_signals = 0;
  struct sigaction action {};
  action.sa_handler = remember_signal;
  for (size_t i = 0; i < kStopSignals.size(); ++i) {
    ::sigaction(kStopSignals[i], &action, &old_actions[i]);
    // Whoever started us with nohup means it.
    if (old_actions[i].sa_handler == SIG_IGN) {
      ::sigaction(kStopSignals[i], &old_actions[i], nullptr);
    }
  }
}

StopSignals::~StopSignals() {
  first_signal = 0;
  num_signals = 0;
  for (size_t i = 0; i < kStopSignals.size(); ++i) {
    ::sigaction(kStopSignals[i], &old_actions[i], nullptr);
  }
}

int StopSignals::caught() { return first_signal; }
bool StopSignals::is_urgent() { return num_signals > 1; }

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& words,
                                         const ChildOptions& options) {
  if (words.empty()) return Error{Code::kInvalidArgument, "an empty command"};
  Start start;
  std::vector<std::string> own_words = words;
  std::vector<std::string> own_environment = merged_environment(options);
  start.words = pointers(own_words);
  start.environment = pointers(own_environment);
  start.parent = ::getpid();
  if (!options.output_path.empty()) {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    start.output = ::open(options.output_path.c_str(), kFlags, 0644);
    if (start.output < 0) {
      return Error{Code::kUnavailable, fmt::format("cannot write {}", options.output_path)};
    }
  }
  start.input = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  int report[2] = {-1, -1};
  const bool has_pipe = ::pipe2(report, O_CLOEXEC) == 0;
  start.report = report[1];
  std::fflush(nullptr);
  const pid_t pid = has_pipe ? ::fork() : -1;
  if (pid == 0) run_child(start);
  int error = pid < 0 ? errno : 0;
  if (pid > 0) ::setpgid(pid, pid);  // whoever comes first
  for (const int file : {start.output, start.input, report[1]}) {
    if (file >= 0) ::close(file);
  }
  if (pid > 0) {
    while (::read(report[0], &error, sizeof error) < 0 && errno == EINTR) {
    }
    if (error != 0) ::waitpid(pid, nullptr, 0);
  }
  if (report[0] >= 0) ::close(report[0]);
  if (error != 0) {
    return Error{Code::kUnavailable,
                 fmt::format("cannot start '{}': {}", words[0], std::strerror(error))};
  }
  return ChildProcess(pid);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), status_(other.status_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    stop(std::chrono::milliseconds(0));
    pid_ = std::exchange(other.pid_, -1);
    status_ = other.status_;
  }
  return *this;
}

ChildProcess::~ChildProcess() { stop(std::chrono::milliseconds(0)); }

std::optional<int> ChildProcess::exit_status() {
  if (status_ || pid_ < 0) return status_;
  siginfo_t info{};
  // It stays a zombie until stop(), so that its number stays ours.
  if (::waitid(P_PID, id_t(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_) {
    status_ = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
  }
  return status_;
}

std::optional<int> ChildProcess::wait_until(Clock::time_point deadline) {
  constexpr auto kPause = std::chrono::milliseconds(10);
  while (!exit_status()) {
    if (StopSignals::caught() != 0 || Clock::now() >= deadline) return std::nullopt;
    pause_for(kPause);
  }
  return status_;
}

void ChildProcess::stop(std::chrono::milliseconds grace) {
  if (pid_ < 0) return;
  constexpr auto kPause = std::chrono::milliseconds(10);
  constexpr auto kAfterKill = std::chrono::seconds(5);
  ::kill(-pid_, SIGTERM);
  const auto deadline = Clock::now() + grace;
  while (group_is_alive(pid_) && Clock::now() < deadline && !StopSignals::is_urgent()) {
    pause_for(kPause);
  }
  ::kill(-pid_, SIGKILL);
  const auto end = Clock::now() + kAfterKill;
  while (group_is_alive(pid_) && Clock::now() < end) pause_for(kPause);
  exit_status();
  ::waitpid(pid_, nullptr, WNOHANG);
  pid_ = -1;
}

void pause_for(std::chrono::milliseconds time) { ::poll(nullptr, 0, int(time.count())); }

std::string last_lines(const std::string& path, size_t count) {
  constexpr std::streamoff kMost = 8192;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(size - kMost, 0));
  std::string text(size_t(std::min(size, kMost)), '\0');
  file.read(text.data(), std::streamsize(text.size()));
  text.resize(size_t(file.gcount()));
  while (text.ends_with('\n')) text.pop_back();
  size_t start = text.size();
  for (size_t i = 0; i < count && start != 0; ++i) {
    const size_t end = text.rfind('\n', start - 1);
    if (end == std::string::npos) return text;
    start = end;
  }
  return text.substr(std::min(start + 1, text.size()));
}

}  // namespace octavo::bench
