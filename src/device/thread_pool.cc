#include "device/thread_pool.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/thread_name.h"

namespace octavo::device {
namespace {

/// How long a worker looks for the next op before it sleeps: the ops of one step follow each other
/// within microseconds, waking a sleeper costs 20 to 50. Between steps a core must go free.
constexpr auto kSpin = std::chrono::microseconds(60);
/// Pauses between two looks at the clock while spinning.
constexpr int kPausesPerLook = 32;
/// How long the caller spins for the last pieces before it offers its core to a worker that may
/// have lost its own to another thread.
constexpr int kCallerPauses = 400;  // about 20 us

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr,
          nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr,
          nullptr, 0);
}

/// A CPU that went away since it was planned: the thread runs anywhere, nothing else changes.
bool bind_thread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu >= CPU_SETSIZE) return false;
  CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace

/// A job is published by one 64-bit ticket: its number in the upper half, the pieces nobody has
/// taken yet in the lower. A piece is taken by compare-and-swap, so a worker that wakes late finds
/// either nothing left or the next job, and the caller waits only for pieces that were taken.
struct ThreadPool::State {
  // Written by the caller while no piece is out; read by whoever holds a piece.
  Task task = nullptr;
  void* context = nullptr;
  int64_t count = 0;
  int64_t grain = 0;
  uint32_t num_pieces = 0;

  alignas(64) std::atomic<uint64_t> ticket{0};
  alignas(64) std::atomic<uint32_t> completed{0};
  alignas(64) std::atomic<uint32_t> epoch{0};  // what sleepers wait on
  std::atomic<uint32_t> num_sleeping{0};
  std::atomic<bool> stop{false};

  std::vector<std::thread> workers;
  int caller_cpu = -1;

  /// Takes pieces until none is left.
  void run_pieces(int thread_index) {
    uint64_t seen = ticket.load(std::memory_order_acquire);
    while ((seen & 0xffffffffu) != 0) {
      if (!ticket.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        continue;
      }
      const int64_t piece = num_pieces - static_cast<int64_t>(seen & 0xffffffffu);
      const int64_t begin = piece * grain;
      task(context, begin, std::min(begin + grain, count), thread_index);
      completed.fetch_add(1, std::memory_order_release);
      seen = ticket.load(std::memory_order_acquire);
    }
  }

  /// Returns when `epoch` differs from `last` or the pool stops: spins first, then sleeps.
  void wait_for_job(uint32_t last) {
    const auto deadline = std::chrono::steady_clock::now() + kSpin;
    do {
      for (int i = 0; i < kPausesPerLook; ++i) {
        if (epoch.load(std::memory_order_acquire) != last) return;
        pause_cpu();
      }
    } while (std::chrono::steady_clock::now() < deadline);
    num_sleeping.fetch_add(1, std::memory_order_seq_cst);
    while (epoch.load(std::memory_order_seq_cst) == last) futex_wait(epoch, last);
    num_sleeping.fetch_sub(1, std::memory_order_relaxed);
  }

  void work(int thread_index) {
    name_this_thread("compute");
    uint32_t last = 0;
    while (true) {
      wait_for_job(last);
      if (stop.load(std::memory_order_acquire)) return;
      last = epoch.load(std::memory_order_acquire);
      run_pieces(thread_index);
    }
  }

  void publish() {
    epoch.fetch_add(1, std::memory_order_seq_cst);
    if (num_sleeping.load(std::memory_order_seq_cst) > 0) futex_wake_all(epoch);
  }
};

ThreadPool::ThreadPool(const ThreadPlan& plan) : state_(std::make_unique<State>()) {
  CHECK_GE(plan.num_threads, 1);
  const auto cpu_of = [&](int i) {
    const auto index = static_cast<size_t>(i);
    return index < plan.cpus.size() ? plan.cpus[index] : -1;
  };
  state_->caller_cpu = cpu_of(0);
  for (int i = 1; i < plan.num_threads; ++i) {
    state_->workers.emplace_back([state = state_.get(), i, cpu = cpu_of(i)] {
      if (cpu >= 0) (void)bind_thread(cpu);
      state->work(i);
    });
  }
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true, std::memory_order_release);
  state_->publish();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::caller_cpu() const { return state_->caller_cpu; }

CallerBinding::CallerBinding(const ThreadPool& pool) {
  CPU_ZERO(&before_);
  if (pool.caller_cpu() < 0 || sched_getaffinity(0, sizeof before_, &before_) != 0) return;
  bound_ = bind_thread(pool.caller_cpu());
}
CallerBinding::~CallerBinding() {
  if (bound_) sched_setaffinity(0, sizeof before_, &before_);
}

int ThreadPool::num_threads() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::parallel_for(int64_t count, int64_t grain, Task task, void* context) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  State& s = *state_;
  if (s.workers.empty() || count <= grain) {
    for (int64_t begin = 0; begin < count; begin += grain) {
      task(context, begin, std::min(begin + grain, count), 0);
    }
    return;
  }
  const int64_t num_pieces = (count - 1) / grain + 1;
  CHECK_LT(num_pieces, int64_t{1} << 31);
  s.task = task;
  s.context = context;
  s.count = count;
  s.grain = grain;
  s.num_pieces = static_cast<uint32_t>(num_pieces);
  s.completed.store(0, std::memory_order_relaxed);
  const uint64_t number = (s.ticket.load(std::memory_order_relaxed) >> 32) + 1;
  s.ticket.store(number << 32 | static_cast<uint64_t>(num_pieces), std::memory_order_release);
  s.publish();
  s.run_pieces(0);
  for (int spins = 0; s.completed.load(std::memory_order_acquire) != s.num_pieces; ++spins) {
    if (spins < kCallerPauses) {
      pause_cpu();
    } else {
      sched_yield();
    }
  }
}

}  // namespace octavo::device
