#include "base/log.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "base/thread_name.h"

namespace octavo::log {
namespace {

constexpr size_t kMaxLines = 16384;
constexpr size_t kMaxBytes = size_t{8} << 20;
constexpr const char* kNames[] = {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"};

std::atomic<Level> g_level{Level::kInfo};
std::terminate_handler g_previous_terminate = nullptr;

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string record_line(Level level, Source source, const Place& where, std::string_view message) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%m-%d %H:%M:%S", &local);
  return fmt::format(
      "({} pid={}) {} {} [{}:{}] {}\n", source == Source::kApiServer ? "APIServer" : "EngineCore",
      getpid(), kNames[static_cast<int>(level)], stamp, base_name(where.file), where.line, message);
}

/// As long as it takes; what stdout refuses for good (closed, disk full) is lost.
void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n > 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (n < 0 && errno == EAGAIN) {
      pollfd ready{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (n == 0 || errno != EINTR) {
      return;
    }
  }
}

/// The bounded queue and its writer. Never destroyed: threads may log until the very end.
class Writer {
 public:
  static Writer& instance() {
    static Writer* const writer = new Writer;
    return *writer;
  }

  void push(std::string line) noexcept {
    {
      std::lock_guard lock(mutex_);
      const bool full = lines_.size() >= kMaxLines || num_bytes_ + line.size() > kMaxBytes;
      if (full || !append(std::move(line))) {
        ++num_dropped_;
        return;
      }
      ++num_pushed_;
    }
    arrived_.notify_one();
  }

  bool flush(std::chrono::milliseconds timeout) {
    if (getpid() != pid_) return false;  // a forked child has no writer
    std::unique_lock lock(mutex_);
    const uint64_t target = num_pushed_;
    return written_.wait_for(lock, timeout, [&] { return num_written_ >= target; });
  }

 private:
  Writer() : pid_(getpid()) {
    // Signals are for the threads that expect them; a closed pipe is an error code here.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { run(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    std::atexit([] { log::flush(); });
    g_previous_terminate = std::set_terminate([] {
      log::flush();
      if (g_previous_terminate != nullptr) g_previous_terminate();
      std::abort();
    });
  }

  bool append(std::string&& line) {
    const size_t size = line.size();
    try {
      lines_.push_back(std::move(line));
    } catch (const std::bad_alloc&) {
      return false;
    }
    num_bytes_ += size;
    return true;
  }

  void run() {
    name_this_thread("log");
    std::unique_lock lock(mutex_);
    for (;;) {
      arrived_.wait(lock, [this] { return !lines_.empty(); });
      // One at a time: what has not been written yet counts against the bound.
      const std::string line = std::move(lines_.front());
      lines_.pop_front();
      const uint64_t dropped = std::exchange(num_dropped_, 0);
      lock.unlock();
      write_all(line);
      if (dropped > 0) write_all(dropped_line(dropped));
      lock.lock();
      num_bytes_ -= line.size();
      ++num_written_;
      written_.notify_all();
    }
  }

  static std::string dropped_line(uint64_t count) {
    return record_line(Level::kWarning, Source::kApiServer, {__FILE__, __LINE__},
                       fmt::format("{} log lines were dropped: stdout did not take them", count));
  }

  const pid_t pid_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable written_;
  std::deque<std::string> lines_;
  size_t num_bytes_ = 0;
  uint64_t num_dropped_ = 0;
  uint64_t num_pushed_ = 0;
  uint64_t num_written_ = 0;
};

}  // namespace

void set_level(Level level) { g_level.store(level); }
bool enabled(Level level) { return level >= g_level.load(std::memory_order_relaxed); }

void write(Level level, Source source, const Place& where, std::string message) {
  write_line(record_line(level, source, where, message));
}

void write_line(std::string line) { Writer::instance().push(std::move(line)); }

bool flush(std::chrono::milliseconds timeout) { return Writer::instance().flush(timeout); }

}  // namespace octavo::log
