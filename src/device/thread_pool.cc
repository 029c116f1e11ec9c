#include "device/thread_pool.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

/// What a waiting thread fetches at most.
constexpr int64_t kAheadBytes = 64 << 10;
/// Parts that lie anywhere of which a waiting thread fetches at most so many.
constexpr int kMostParts = 16;
/// Cache lines between two looks at what is waited for.
constexpr int kLinesPerLook = 2;

/// How far a thread has fetched of its share of what will be read next.
struct alignas(64) ReadAhead {
  const std::byte* at = nullptr;
  const std::byte* end = nullptr;
  uint32_t version = 0;  // of the pool's reading
  int num_parts = 0;     // that lie somewhere else
  size_t part_bytes = 0;
  std::array<const std::byte*, kMostParts> parts{};  // the last one first

  void begin(const Reading& reading, uint32_t new_version, int64_t thread_index,
             int64_t num_threads) {
    if (new_version == version) return;
    version = new_version;
    const int64_t pieces = reading.num_parts / reading.parts_of_piece;
    const int64_t first = pieces * thread_index / num_threads * reading.parts_of_piece;
    const int64_t last = pieces * (thread_index + 1) / num_threads * reading.parts_of_piece;
    part_bytes = reading.part_bytes;
    num_parts = 0;
    if (reading.part_at == nullptr) {
      at = reading.data + static_cast<size_t>(first) * part_bytes;
      end = at + std::min(kAheadBytes, (last - first) * static_cast<int64_t>(part_bytes));
      return;
    }
    at = end = nullptr;
    const auto most = std::min<int64_t>(last - first, kMostParts);
    for (int64_t i = most; i > 0; --i) {
      parts[static_cast<size_t>(num_parts++)] = reading.part_at(reading.context, first + i - 1);
    }
  }
  /// Fetches a little; false when there is nothing left to fetch.
  bool fetch() {
    if (at >= end) {
      if (num_parts == 0) return false;
      at = parts[static_cast<size_t>(--num_parts)];
      end = at + part_bytes;
    }
    for (int i = 0; i < kLinesPerLook; ++i, at += 64) __builtin_prefetch(at, 0, 2);
    return true;
  }
};

/// A job's pieces are dealt out in runs of neighbours, one for each thread, so that a thread reads
/// memory in one go; who has none left takes from the far end of another's run. A run is one word,
/// its first piece in the upper half and its end in the lower, and a piece is taken by
/// compare-and-swap: a worker that wakes late finds either nothing left or a piece of the next job,
/// and the caller waits only for pieces that were taken.
struct alignas(64) Run {
  std::atomic<uint64_t> pieces{0};

  void set(int64_t begin, int64_t end) {
    pieces.store(static_cast<uint64_t>(begin) << 32 | static_cast<uint64_t>(end),
                 std::memory_order_release);
  }
  /// The next piece of the own run, or the last of another's; -1: none left.
  int64_t take(bool own) {
    uint64_t seen = pieces.load(std::memory_order_acquire);
    while (true) {
      const uint64_t begin = seen >> 32;
      const uint64_t end = seen & 0xffffffffu;
      if (begin >= end) return -1;
      const uint64_t left = own ? (begin + 1) << 32 | end : begin << 32 | (end - 1);
      if (pieces.compare_exchange_weak(seen, left, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
        return static_cast<int64_t>(own ? begin : end - 1);
      }
    }
  }
};

}  // namespace

// Padded on purpose: what different threads write lies in lines of its own.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct ThreadPool::State {
  // Written by the caller while no piece is out; read by whoever holds a piece.
  Task task = nullptr;
  void* context = nullptr;
  int64_t count = 0;
  int64_t grain = 0;
  Reading reading;
  uint32_t reading_version = 0;
  alignas(64) std::atomic<uint32_t> epoch{0};  // what sleepers wait on
  std::atomic<uint32_t> num_sleeping{0};
  std::atomic<bool> stop{false};

  std::vector<Run> runs;          // one for each thread
  std::vector<ReadAhead> aheads;  // the same; each is its thread's
  alignas(64) std::atomic<int64_t> completed{0};

  std::vector<std::thread> workers;
  int caller_cpu = -1;

  /// Runs pieces until none is left, the own ones first; returns how many.
  int64_t run_pieces(int thread_index) {
    int64_t num_done = 0;
    const int num_threads = static_cast<int>(runs.size());
    for (int i = 0; i < num_threads; ++i) {
      const int from = (thread_index + i) % num_threads;
      for (int64_t piece; (piece = runs[static_cast<size_t>(from)].take(i == 0)) >= 0;) {
        const int64_t begin = piece * grain;
        task(context, begin, std::min(begin + grain, count), thread_index);
        ++num_done;
      }
    }
    // As long as pieces are out, the caller changes nothing.
    if (num_done > 0) {
      aheads[static_cast<size_t>(thread_index)].begin(reading, reading_version, thread_index,
                                                      num_threads);
    }
    return num_done;
  }

  /// Returns when `epoch` differs from `last` or the pool stops: spins first, then sleeps.
  void wait_for_job(uint32_t last, ReadAhead& ahead) {
    const auto deadline = std::chrono::steady_clock::now() + kSpin;
    do {
      for (int i = 0; i < kPausesPerLook; ++i) {
        if (epoch.load(std::memory_order_acquire) != last) return;
        if (!ahead.fetch()) pause_cpu();
      }
    } while (std::chrono::steady_clock::now() < deadline);
    num_sleeping.fetch_add(1, std::memory_order_seq_cst);
    while (epoch.load(std::memory_order_seq_cst) == last) futex_wait(epoch, last);
    num_sleeping.fetch_sub(1, std::memory_order_relaxed);
  }

  void work(int thread_index) {
    name_this_thread("compute");
    uint32_t last = 0;
    ReadAhead& ahead = aheads[static_cast<size_t>(thread_index)];
    while (true) {
      wait_for_job(last, ahead);
      // In this order: a stop that is not seen yet comes with an epoch that is not yet `last`.
      last = epoch.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_acquire)) return;
      const int64_t num_done = run_pieces(thread_index);
      if (num_done > 0) completed.fetch_add(num_done, std::memory_order_release);
    }
  }

  /// Whoever took no piece of the call does not ask for its parts any more.
  void forget_parts() {
    if (reading.part_at != nullptr) reading = {};
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
  state_->runs = std::vector<Run>(static_cast<size_t>(plan.num_threads));
  state_->aheads.resize(static_cast<size_t>(plan.num_threads));
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

void ThreadPool::read_next(const Reading& reading) {
  state_->reading = reading;
  ++state_->reading_version;
}

void ThreadPool::parallel_for(int64_t count, int64_t grain, Task task, void* context) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  State& s = *state_;
  if (s.workers.empty() || count <= grain) {
    for (int64_t begin = 0; begin < count; begin += grain) {
      task(context, begin, std::min(begin + grain, count), 0);
    }
    return s.forget_parts();
  }
  const int64_t num_pieces = (count - 1) / grain + 1;
  CHECK_LT(num_pieces, int64_t{1} << 31);
  s.task = task;
  s.context = context;
  s.count = count;
  s.grain = grain;
  s.completed.store(0, std::memory_order_relaxed);
  const int64_t num_threads = this->num_threads();
  for (int64_t i = 0; i < num_threads; ++i) {
    s.runs[static_cast<size_t>(i)].set(num_pieces * i / num_threads,
                                       num_pieces * (i + 1) / num_threads);
  }
  s.publish();
  const int64_t by_others = num_pieces - s.run_pieces(0);
  for (int spins = 0; s.completed.load(std::memory_order_acquire) != by_others; ++spins) {
    if (s.aheads[0].fetch()) continue;
    if (spins < kCallerPauses) {
      pause_cpu();
    } else {
      sched_yield();
    }
  }
  s.forget_parts();
}

}  // namespace octavo::device
